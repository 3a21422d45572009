"""Which outputs of a flow are its result, and how much of them is told."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import JsonValue
from pydantic_core import to_json

from pyoco_protocol.runs.lifecycle import TaskStatus
from pyoco_protocol.runs.snapshot import TaskRecord

# A result is read with every look at a run; what is larger is found in the task records.
MAX_RESULT_BYTES: Final = 16_384


def last_tasks(flow: Any) -> tuple[str, ...]:
    """Return the tasks whose outputs are what the flow as a whole came to.

    Where steps follow one another, those of the last step; the last ones within it, where that
    is a loop or a switch. Else those on which no other task depends.
    """
    if flow.has_control_flow():
        return tuple(dict.fromkeys(_ends_of(flow._definition)))
    awaited = {each.name for task in flow.tasks for each in task.dependencies}
    return tuple(sorted(task.name for task in flow.tasks if task.name not in awaited))


def _ends_of(steps: list[Any]) -> Iterator[str]:
    # Not by recursion: nobody limits how deep steps are nested.
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
    """Return the outputs of the tasks that succeeded, and whether one of them is not told whole.

    The smallest first, for as long as there is room; a mark stands for each of the others, and
    nothing at all where even that is too much.
    """
    texts: dict[str, bytes | None] = {}
    for name in names:
        if state_of(name) is TaskStatus.SUCCEEDED:
            record = records.get(name)
            texts[name] = None if record is None else to_json(record.output)
    left, told, truncated = MAX_RESULT_BYTES, dict[str, JsonValue](), False
    for name in sorted(texts, key=lambda each: _size(texts[each])):
        text = texts[name]
        output = _mark(text) if text is None else records[name].output
        room = len(to_json(name)) + len(b":,")
        if text is None or room + len(text) > left:
            truncated, output = True, _mark(text)
        room += len(to_json(output))
        if room > left:
            continue
        left -= room
        told[name] = output
    return {name: told[name] for name in texts if name in told}, truncated


def _size(text: bytes | None) -> float:
    return float("inf") if text is None else len(text)


def _mark(text: bytes | None) -> JsonValue:
    # Of what was too large for a record, nobody has counted the bytes.
    return {"$truncated": True, **({} if text is None else {"size_bytes": len(text)})}
