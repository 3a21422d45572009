"""Parses untrusted YAML into a tree with locations, with limits on size, depth and time.

Only the event parser of the YAML library is used. Its loader expands aliases, constructs objects
from tags, and overflows the C stack on deeply nested files.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import yaml
from pydantic import JsonValue

from pyoco_protocol.workflows.problems import (
    MAX_PROBLEMS,
    WorkflowInvalidError,
    WorkflowProblem,
    shown,
)
from pyoco_protocol.workflows.scalars import Scalar, ScalarError, plain_scalar

MAX_DEPTH: Final = 64
MAX_NODES: Final = 20_000
# Far above the time for the largest file; exceeded only on an overloaded machine.
MAX_SCAN_SEC: Final = 5.0
_LOOK_AT_CLOCK_EACH: Final = 256
_MAX_KEY_CHARS: Final = 512

Style = Literal["plain", "quoted", "block"]


@dataclass(slots=True)
class Node:
    """A value of the file and its location."""

    line: int
    column: int


@dataclass(slots=True)
class ScalarNode(Node):
    """A single value."""

    value: Scalar
    style: Style = "plain"


@dataclass(slots=True)
class ListNode(Node):
    """A list of values."""

    items: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Entry:
    """A key of a mapping and its value."""

    key: str
    line: int
    column: int
    value: Node


@dataclass(slots=True)
class MappingNode(Node):
    """A mapping with unique keys."""

    entries: dict[str, Entry] = field(default_factory=dict)


def scan(
    data: bytes | str,
    *,
    clock: Callable[[], float] = time.monotonic,
    max_nodes: int = MAX_NODES,
) -> Node:
    """Return the single document of a file; raise WorkflowInvalidError if it is invalid.

    The error lists all problems of a well-formed file. Parsing stops at the first syntax error
    and at the first exceeded limit.
    """
    return _Scanner(_decoded(data), clock, max_nodes).document()


def plain(node: Node) -> JsonValue:
    """Return the JSON value of a node, without locations."""
    if isinstance(node, MappingNode):
        return {key: plain(entry.value) for key, entry in node.entries.items()}
    if isinstance(node, ListNode):
        return [plain(item) for item in node.items]
    return node.value if isinstance(node, ScalarNode) else None


def _decoded(data: bytes | str) -> str:
    if isinstance(data, bytes):
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise _fault("yaml.encoding", "is not UTF-8 text", line) from None
    else:
        text = data.removeprefix("\ufeff")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, error.start) + 1
            raise _fault("yaml.encoding", "is not UTF-8 text", line) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise _fault("yaml.encoding", "contains a NUL character", line)
    return text


def _fault(
    code: str, what: str, line: int | None = None, column: int | None = None
) -> WorkflowInvalidError:
    return WorkflowInvalidError(
        [WorkflowProblem(code=code, where="workflow", line=line, column=column, what=what)]
    )


def _events(text: str) -> Iterator[Any]:
    try:
        from yaml._yaml import CParser
    except ImportError:
        yield from yaml.parse(text, Loader=yaml.SafeLoader)
        return
    parser: Any = CParser(text)
    try:
        while (event := parser.get_event()) is not None:
            yield event
    finally:
        parser.dispose()


class _Scanner:
    """Builds the tree with an explicit stack, limited to `MAX_DEPTH`."""

    def __init__(self, text: str, clock: Callable[[], float], max_nodes: int) -> None:
        self._text = text
        self._clock = clock
        self._max_nodes = max_nodes
        self._nodes = 0
        self._problems: list[WorkflowProblem] = []
        # The open containers, and for each the key that waits for its value.
        self._open: list[MappingNode | ListNode] = []
        self._keys: list[Entry | None] = []
        self._root: Node | None = None
        self._documents = 0

    def document(self) -> Node:
        deadline = self._clock() + MAX_SCAN_SEC
        try:
            for seen, event in enumerate(_events(self._text)):
                if not seen % _LOOK_AT_CLOCK_EACH and self._clock() > deadline:
                    raise _fault("yaml.too_slow", f"took more than {MAX_SCAN_SEC:g} s to read")
                self._take(event)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self._malformed(
                error.problem or error.context or "cannot be read",
                None if mark is None else mark.line + 1,
                None if mark is None else mark.column + 1,
            ) from None
        except yaml.YAMLError as error:
            # Errors without a location: characters that YAML does not allow.
            raise self._malformed(str(error).partition("\n")[0]) from None
        if self._root is None and not self._problems:
            raise _fault("yaml.empty", "is empty")
        if self._problems or self._root is None:
            raise WorkflowInvalidError(self._problems)
        return self._root

    def _malformed(
        self, what: str, line: int | None = None, column: int | None = None
    ) -> WorkflowInvalidError:
        problem = WorkflowProblem(
            code="yaml.syntax",
            where="workflow",
            line=line,
            column=column,
            what=f"is not YAML: {what}",
        )
        return WorkflowInvalidError([*self._problems, problem])

    def _take(self, event: Any) -> None:
        match event:
            case yaml.ScalarEvent():
                self._count(event)
                self._scalar(event)
            case yaml.MappingStartEvent():
                self._begin(event, MappingNode(*_place(event)))
            case yaml.SequenceStartEvent():
                self._begin(event, ListNode(*_place(event)))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._open.pop()
                self._keys.pop()
                self._forget_key()
            case yaml.AliasEvent():
                self._count(event)
                self._problem("yaml.alias", "aliases (*name) are not allowed", event)
                self._put(ScalarNode(*_place(event), value=None), event)
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    line, column = _place(event)
                    raise _fault("yaml.documents", "contains more than one document", line, column)
                if event.version or event.tags:
                    self._problem("yaml.directive", "directives (%…) are not allowed", event)

    def _begin(self, event: Any, node: MappingNode | ListNode) -> None:
        self._count(event)
        self._look_at_marks(event)
        self._put(node, event)
        self._open.append(node)
        self._keys.append(None)
        if len(self._open) > MAX_DEPTH:
            line, column = _place(event)
            raise _fault("yaml.too_deep", f"is nested deeper than {MAX_DEPTH}", line, column)

    def _forget_key(self) -> None:
        """Clear the pending key after its value has ended."""
        if self._keys:
            self._keys[-1] = None

    def _count(self, event: Any) -> None:
        self._nodes += 1
        if self._nodes > self._max_nodes:
            line, column = _place(event)
            what = f"has more than {self._max_nodes} values"
            raise _fault("yaml.too_many", what, line, column)

    def _scalar(self, event: Any) -> None:
        self._look_at_marks(event)
        line, column = _place(event)
        is_plain = not event.style
        if self._awaits_key():
            self._key(event, is_plain=is_plain)
            return
        value: Scalar = event.value
        if is_plain and event.tag is None:
            try:
                value = plain_scalar(event.value)
            except ScalarError as error:
                self._problem("yaml.scalar", f"{shown(event.value)} {error}", event)
        style: Style = "plain" if is_plain else "block" if event.style in "|>" else "quoted"
        self._put(ScalarNode(line, column, value, style), event)

    def _awaits_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1], MappingNode) and not self._keys[-1]

    def _key(self, event: Any, *, is_plain: bool) -> None:
        line, column = _place(event)
        name: str = event.value
        mapping = self._open[-1]
        assert isinstance(mapping, MappingNode)  # noqa: S101 - only a mapping awaits a key
        if is_plain and name == "<<":
            self._problem("yaml.merge_key", "merge keys (<<) are not allowed", event)
        elif is_plain and not _is_text(name):
            self._problem(
                "yaml.key", f"the key {shown(name)} is not text; write it in quotes", event
            )
        elif len(name) > _MAX_KEY_CHARS:
            self._problem("yaml.key", f"a key has more than {_MAX_KEY_CHARS} characters", event)
        elif name in mapping.entries:
            first = mapping.entries[name].line
            self._problem(
                "yaml.duplicate_key", f"the key {shown(name)} is also in line {first}", event
            )
        entry = Entry(name, line, column, ScalarNode(line, column, value=None))
        # A refused key still takes its value, so that the rest of the file is parsed.
        mapping.entries.setdefault(name, entry)
        self._keys[-1] = entry

    def _put(self, node: Node, event: Any) -> None:
        if not self._open:
            self._root = node
            return
        container = self._open[-1]
        if isinstance(container, ListNode):
            container.items.append(node)
            return
        entry = self._keys[-1]
        if entry is None:
            line, column = _place(event)
            raise _fault("yaml.key", "a key is not text but a collection", line, column)
        entry.value = node
        if isinstance(node, ScalarNode):
            self._forget_key()

    def _look_at_marks(self, event: Any) -> None:
        if event.anchor is not None:
            self._problem("yaml.anchor", "anchors (&name) are not allowed", event)
        if event.tag is not None:
            self._problem("yaml.tag", f"tags ({shown(event.tag)}) are not allowed", event)

    def _problem(self, code: str, what: str, event: Any) -> None:
        line, column = _place(event)
        self._problems.append(
            WorkflowProblem(code=code, where=self._here(), line=line, column=column, what=what)
        )
        if len(self._problems) >= MAX_PROBLEMS:
            raise WorkflowInvalidError(self._problems)

    def _here(self) -> str:
        steps = [entry.key[:_MAX_KEY_CHARS] for entry in self._keys if entry is not None]
        return ".".join(steps) or "workflow"


def _is_text(name: str) -> bool:
    try:
        return isinstance(plain_scalar(name), str)
    except ScalarError:
        return False


def _place(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1
