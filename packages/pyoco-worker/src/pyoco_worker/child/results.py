"""The result of a flow: the outputs of its last tasks, up to a size limit."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import JsonValue
from pydantic_core import to_json

from pyoco_protocol.runs.lifecycle import TaskStatus
from pyoco_protocol.runs.snapshot import TaskRecord

# Every read of a run returns its result, so it is small. The task records have larger outputs.
MAX_RESULT_BYTES: Final = 16_384


def last_tasks(flow: Any) -> tuple[str, ...]:
    """Return the tasks whose outputs are the result of the flow.

    With control flow these are the tasks of the last step; if it is a loop or a switch, the last
    tasks inside. Otherwise they are the tasks that no other task depends on.
    """
    if flow.has_control_flow():
        return tuple(dict.fromkeys(_ends_of(flow._definition)))
    depended_on = {each.name for task in flow.tasks for each in task.dependencies}
    return tuple(sorted(task.name for task in flow.tasks if task.name not in depended_on))


def _ends_of(steps: list[Any]) -> Iterator[str]:
    # Not recursive, because the nesting of steps has no limit.
    open_steps = [steps]
    while open_steps:
        inner = open_steps.pop()
        if not inner:
            continue
        last = inner[-1]
        if (task := getattr(last, "task", None)) is not None:
            yield task.name
        elif (body := getattr(last, "body", None)) is not None:
            open_steps.append(body.steps)
        else:
            cases = getattr(last, "cases", ())
            open_steps += [case.target.steps for case in reversed(cases)]


def result_of(
    names: Iterable[str],
    records: Mapping[str, TaskRecord],
    state_of: Callable[[str], TaskStatus],
) -> tuple[dict[str, JsonValue], bool]:
    """Return the outputs of the tasks that succeeded, and whether an output is missing.

    The smallest outputs are kept first. A `$truncated` object replaces each output that does not
    fit, and a task is left out if not even that object fits.
    """
    texts: dict[str, bytes | None] = {}
    for name in names:
        if state_of(name) is TaskStatus.SUCCEEDED:
            record = records.get(name)
            texts[name] = None if record is None else to_json(record.output)
    left, kept, truncated = MAX_RESULT_BYTES, dict[str, JsonValue](), False
    for name in sorted(texts, key=lambda each: _size(texts[each])):
        text = texts[name]
        output = _truncated(text) if text is None else records[name].output
        room = len(to_json(name)) + len(b":,")
        if text is None or room + len(text) > left:
            truncated, output = True, _truncated(text)
        room += len(to_json(output))
        if room > left:
            continue
        left -= room
        kept[name] = output
    return {name: kept[name] for name in texts if name in kept}, truncated


def _size(text: bytes | None) -> float:
    return float("inf") if text is None else len(text)


def _truncated(text: bytes | None) -> JsonValue:
    # The size of an output that was too large for a record is unknown.
    return {"$truncated": True, **({} if text is None else {"size_bytes": len(text)})}
