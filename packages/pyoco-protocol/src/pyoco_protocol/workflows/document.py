"""The schema of a workflow file: its keys and the types of their values."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from pyoco_protocol.workflows.problems import WorkflowProblem, shown
from pyoco_protocol.workflows.scan import (
    Entry,
    ListNode,
    MappingNode,
    Node,
    ScalarNode,
    plain,
)

MAX_NAME_CHARS: Final = 128

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CALLABLE: Final = re.compile(
    r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*"
)
# No step of a path begins with an underscore, so paths cannot reach private attributes.
_STEP: Final = r"[A-Za-z][A-Za-z0-9_]*"
_OUTPUT_ROOTS: Final = ("results", "scratch", "params")
_OUTPUT: Final = re.compile(rf"({'|'.join(_OUTPUT_ROOTS)})(\.{_STEP})+")
_REFERENCE: Final = re.compile(
    rf"\$node\.[A-Za-z_][A-Za-z0-9_]*\.output(\.({_STEP}|[0-9]+))*"
    rf"|\$ctx\.params\.[A-Za-z_][A-Za-z0-9_]*|\$env\.[A-Za-z_][A-Za-z0-9_]*"
)
_FORBIDDEN: Final = {
    "flows": "a file has one flow: put its graph under `flow`",
    "discovery": "workers decide which modules they load: list each task under `tasks`",
}


@dataclass(frozen=True, slots=True)
class Text:
    """A text of the file and its location, for problems inside the text."""

    value: str
    where: str
    line: int
    # Whether the text is a block scalar: its first line is the line after `line`.
    is_block: bool = False

    def line_of(self, position: int) -> int:
        """Return the line in the file of a position in the text."""
        if not self.is_block:
            return self.line
        return self.line + 1 + self.value.count("\n", 0, position)


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """A task of the file. Exactly one of `callable` and `use` is set."""

    name: str
    line: int
    callable: str | None
    use: str | None
    inputs: dict[str, JsonValue]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkflowDocument:
    """A workflow file that matches the schema. Its graph is not checked yet."""

    graph: Text
    defaults: dict[str, JsonValue]
    tasks: dict[str, TaskPlan]
    pipes: dict[str, Text]


def document_of(root: Node) -> tuple[WorkflowDocument | None, list[WorkflowProblem]]:
    """Return the document and all violations of the schema.

    The document is None if it has no graph that could be checked further.
    """
    reader = _Reader()
    document = reader.document(root)
    return document, reader.problems


_Reading = Callable[[Entry, str], None]


class _Reader:
    """Reads the tree once and collects problems. Invalid parts are treated as absent."""

    def __init__(self) -> None:
        self.problems: list[WorkflowProblem] = []
        self._graph: Text | None = None
        self._defaults: dict[str, JsonValue] = {}
        self._tasks: dict[str, TaskPlan] = {}
        self._pipes: dict[str, Text] = {}

    def document(self, root: Node) -> WorkflowDocument | None:
        self._read(
            root,
            "workflow",
            "a workflow file",
            {
                "version": self._version,
                "flow": self._flow,
                "tasks": self._tasks_of,
                "pipes": self._pipes_of,
                "runtime": self._runtime,
            },
            required=("flow", "tasks"),
        )
        if self._graph is None:
            return None
        return WorkflowDocument(self._graph, self._defaults, self._tasks, self._pipes)

    # --- parts of a file

    def _version(self, entry: Entry, where: str) -> None:
        version = _scalar(entry.value)
        if version not in (1, "1") or isinstance(version, bool | float):
            self._add("schema.value", where, entry.value, "must be 1 or absent")

    def _flow(self, entry: Entry, where: str) -> None:
        self._read(
            entry.value,
            where,
            "`flow`",
            {"graph": self._graph_of, "defaults": self._defaults_of},
            required=("graph",),
        )

    def _graph_of(self, entry: Entry, where: str) -> None:
        self._graph = self._text(entry, where)

    def _defaults_of(self, entry: Entry, where: str) -> None:
        if not _is_empty(entry):
            self._defaults = self._mapping(entry.value, where)

    def _tasks_of(self, entry: Entry, where: str) -> None:
        for task in self._named(entry.value, where, "a task"):
            self._task(task, f"{where}.{_step(task.key)}")
        if isinstance(entry.value, MappingNode) and not entry.value.entries:
            self._add("schema.value", where, entry.value, "must have at least one task")

    def _task(self, entry: Entry, where: str) -> None:
        found: dict[str, Entry] = {}

        def keep(part: Entry, _: str) -> None:
            found[part.key] = part

        keys = ("callable", "use", "inputs", "outputs")
        is_readable = self._read(entry.value, where, "a task", dict.fromkeys(keys, keep))
        called = self._callable(found.get("callable"), where)
        used = self._use(found.get("use"), where)
        if is_readable and ("callable" in found) == ("use" in found):
            self._add(
                "schema.task",
                where,
                entry,
                "must have either `callable` (module:function) or `use` (a plug-in's task)",
            )
        inputs = self._inputs(found.get("inputs"), where)
        outputs = self._outputs(found.get("outputs"), where)
        self._tasks[entry.key] = TaskPlan(entry.key, entry.line, called, used, inputs, outputs)

    def _callable(self, entry: Entry | None, task: str) -> str | None:
        if entry is None:
            return None
        where = f"{task}.callable"
        text = self._string(entry.value, where)
        if text is not None and (not _CALLABLE.fullmatch(text) or len(text) > 4 * MAX_NAME_CHARS):
            self._add(
                "schema.callable", where, entry.value, "must be written as package.module:function"
            )
        return text

    def _use(self, entry: Entry | None, task: str) -> str | None:
        if entry is None:
            return None
        where = f"{task}.use"
        text = self._string(entry.value, where)
        if text is not None and not (0 < len(text) <= MAX_NAME_CHARS and text.isprintable()):
            self._add("schema.value", where, entry.value, "must be the name of a plug-in's task")
        return text

    def _inputs(self, entry: Entry | None, task: str) -> dict[str, JsonValue]:
        if entry is None or _is_empty(entry):
            return {}
        where = f"{task}.inputs"
        inputs = self._mapping(entry.value, where)
        for name, given in _entries(entry.value):
            value = _scalar(given.value)
            if isinstance(value, str) and value.startswith("$") and not _REFERENCE.fullmatch(value):
                self._add(
                    "schema.reference",
                    f"{where}.{_step(name)}",
                    given.value,
                    f"{shown(value)} is not a reference: use $node.<task>.output[.<field>], "
                    "$ctx.params.<name> or $env.<NAME>. Other text must not begin with $",
                )
        return inputs

    def _outputs(self, entry: Entry | None, task: str) -> tuple[str, ...]:
        if entry is None or _is_empty(entry):
            return ()
        where = f"{task}.outputs"
        outputs: list[str] = []
        for item in self._items(entry.value, where):
            text = self._string(item, where)
            # The engine ignores a plain name, which files of earlier versions may have.
            if text is None or (_IDENTIFIER.fullmatch(text) and text not in _OUTPUT_ROOTS):
                continue
            if not _OUTPUT.fullmatch(text):
                self._add(
                    "schema.output",
                    where,
                    item,
                    f"{shown(text)} is not a valid output: "
                    "use results.<name>, scratch.<name> or params.<name>",
                )
            outputs.append(text)
        return tuple(outputs)

    def _pipes_of(self, entry: Entry, where: str) -> None:
        for pipe in self._named(entry.value, where, "a pipe"):
            text = self._text(pipe, f"{where}.{_step(pipe.key)}")
            if text is not None:
                self._pipes[pipe.key] = text

    def _runtime(self, entry: Entry, where: str) -> None:
        self._read(entry.value, where, "`runtime`", {"expose_env": self._expose_env})

    def _expose_env(self, entry: Entry, where: str) -> None:
        for item in self._items(entry.value, where):
            self._string(item, where)

    # --- kinds of values

    def _read(
        self,
        node: Node,
        where: str,
        what: str,
        readings: Mapping[str, _Reading],
        *,
        required: tuple[str, ...] = (),
    ) -> bool:
        """Read each key of a mapping; return False if the node is not a mapping."""
        if not isinstance(node, MappingNode):
            self._add("schema.type", where, node, f"{what} must be a mapping of {_list(readings)}")
            return False
        inside = "" if where == "workflow" else f"{where}."
        for key, entry in node.entries.items():
            reading = readings.get(key)
            if reading is not None:
                reading(entry, f"{inside}{key}")
            elif where == "workflow" and key in _FORBIDDEN:
                self._add("schema.forbidden_key", key, entry, f"is not allowed: {_FORBIDDEN[key]}")
            else:
                self._add(
                    "schema.unknown_key",
                    f"{inside}{_step(key)}",
                    entry,
                    f"is not a key of {what}; valid keys are {_list(readings)}",
                )
        for key in required:
            if key not in node.entries:
                self._add("schema.missing_key", f"{inside}{key}", node, f"is missing in {what}")
        return True

    def _named(self, node: Node, where: str, what: str) -> Iterator[Entry]:
        """Yield the entries of a mapping; report keys that a graph cannot use as names."""
        if not isinstance(node, MappingNode):
            self._add("schema.type", where, node, f"must be a mapping with the name of {what}")
            return
        for name, entry in node.entries.items():
            if not _IDENTIFIER.fullmatch(name) or len(name) > MAX_NAME_CHARS:
                self._add(
                    "schema.name",
                    f"{where}.{_step(name)}",
                    entry,
                    f"the name of {what} must be 1 to {MAX_NAME_CHARS} letters, digits and '_', "
                    "and must not begin with a digit",
                )
            yield entry

    def _mapping(self, node: Node, where: str) -> dict[str, JsonValue]:
        if not isinstance(node, MappingNode):
            self._add("schema.type", where, node, "must be a mapping of names to values")
            return {}
        return {key: plain(entry.value) for key, entry in node.entries.items()}

    def _items(self, node: Node, where: str) -> list[Node]:
        if not isinstance(node, ListNode):
            self._add("schema.type", where, node, "must be a list")
            return []
        return node.items

    def _string(self, node: Node, where: str) -> str | None:
        value = _scalar(node)
        if not isinstance(value, str):
            self._add("schema.type", where, node, "must be text")
            return None
        return value

    def _text(self, entry: Entry, where: str) -> Text | None:
        text = self._string(entry.value, where)
        if text is None:
            return None
        if not text.strip():
            self._add("schema.value", where, entry.value, "must not be empty")
            return None
        node = entry.value
        is_block = isinstance(node, ScalarNode) and node.style == "block"
        return Text(text, where, node.line, is_block)

    def _add(self, code: str, where: str, at: Node | Entry, what: str) -> None:
        self.problems.append(
            WorkflowProblem(code=code, where=where, line=at.line, column=at.column, what=what)
        )


def _scalar(node: Node) -> object:
    return node.value if isinstance(node, ScalarNode) else None


def _is_empty(entry: Entry) -> bool:
    """Return whether a key has no value: `defaults:` or `defaults: null`."""
    return isinstance(entry.value, ScalarNode) and entry.value.value is None


def _entries(node: Node) -> Iterator[tuple[str, Entry]]:
    if isinstance(node, MappingNode):
        yield from node.entries.items()


def _step(key: str) -> str:
    """Return a key as a short, single-line part of a path."""
    return key if _IDENTIFIER.fullmatch(key) and len(key) <= MAX_NAME_CHARS else shown(key)


def _list(names: Mapping[str, object]) -> str:
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} and {last}" if first else last
