"""Parses graphs in operator form: `(a & b) >> c`, `(a | b) >> c`, several statements.

Pyoco executed such graphs as Python until version 0.6.2. This grammar has only names, `>>`, `&`,
`|`, parentheses and statements, and the same precedence as Python. Nothing is executed.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
from typing import Final, NamedTuple

MAX_NESTING: Final = 32
MAX_STEPS: Final = 2_000
# Groups multiply: 200 steps before and after one `>>` have 40,000 connections.
MAX_CONNECTIONS: Final = 10_000
_MAX_SHOWN: Final = 8

_FLOW: Final = "flow"
_TOKEN: Final = re.compile(
    r"""
      (?P<space>[ \t\r]+|\\\r?\n|\#[^\n]*)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<operator>>>|[&|])
    | (?P<opening>\()
    | (?P<closing>\))
    | (?P<newline>\n)
    | (?P<semicolon>;)
    """,
    re.VERBOSE,
)
# An unclosed text ends with the graph, so that the time is linear.
_QUOTED: Final = re.compile(
    r"""'(?:[^'\\]|\\.?)*(?:'|\Z) | "(?:[^"\\]|\\.?)*(?:"|\Z) | \{\{.*?(?:\}\}|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"#[^\n]*")
_OPERATORS: Final = re.compile(r"[&|]")
_ENGINE_ONLY: Final = re.compile(r"""[{}=:,'"]""")
# A group, a second statement, or a continued line.
_STATEMENTS: Final = re.compile(r"(?:\A|[^\w\s]|\n)[ \t]*\(|;|\w[ \t\r]*\n\s*\w|\\\r?\n")
_FLOW_STATEMENT: Final = re.compile(rf"^[ \t]*{_FLOW}\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class StepGraph:
    """The steps of a graph in operator form and the steps that each of them waits for."""

    # Each step with its first position in the text.
    positions: Mapping[str, int]
    after: Mapping[str, tuple[str, ...]]
    # Steps that start after the first of the steps they wait for, not after all of them.
    any_of: frozenset[str]


class GraphFaultError(ValueError):
    """A graph in operator form is invalid; `code` is the code of the problem."""

    def __init__(self, code: str, position: int, what: str) -> None:
        super().__init__(what)
        self.code = code
        self.position = position


def is_operator_form(text: str, tasks: Container[str]) -> bool:
    """Return whether a graph is in operator form and not in the engine's graph language.

    A chain (`a >> b >> c`) means the same in both. It counts as the engine's language.
    """
    code = _COMMENT.sub("", _QUOTED.sub('"', text)).strip()
    if _OPERATORS.search(code):
        return True
    if _ENGINE_ONLY.search(code):
        return False
    if _STATEMENTS.search(code):
        return True
    return _FLOW not in tasks and _FLOW_STATEMENT.search(code) is not None


def parse_operators(text: str, tasks: Container[str]) -> StepGraph:
    """Return the steps of a graph in operator form; raise GraphFaultError.

    `flow >> a`, as Pyoco's examples write it, begins a statement with the flow itself: its steps
    follow those of the `flow` statement before. A task of that name is a step like any other.
    """
    graph = _Parser(text, has_flow=_FLOW not in tasks).graph()
    _refuse_cycles(graph)
    return StepGraph(
        graph.positions,
        {step: tuple(before) for step, before in graph.before.items()},
        frozenset(graph.any_of),
    )


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


class _Join(Enum):
    """How a step waits for the last steps of a group."""

    ALL = auto()
    ANY = auto()
    # The engine cannot wait for `(a | b) & c`.
    MIXED = auto()


class _Group(NamedTuple):
    """A part of a graph: its first and its last steps."""

    first: tuple[str, ...]
    last: tuple[str, ...]
    join: _Join = _Join.ALL


class _Graph:
    """The steps found so far. `before` has the position of the `>>` that connects two steps."""

    def __init__(self) -> None:
        self.positions: dict[str, int] = {}
        self.before: dict[str, dict[str, int]] = {}
        self.any_of: set[str] = set()
        self._connections = 0

    def add(self, step: str, position: int) -> None:
        self.positions.setdefault(step, position)
        if len(self.positions) > MAX_STEPS:
            raise GraphFaultError("graph.too_large", position, f"has more than {MAX_STEPS} steps")

    def connect(self, left: _Group, right: _Group, position: int) -> None:
        if left.join is _Join.MIXED:
            what = "a step cannot wait for `&` and `|` combined; add a step between them"
            raise GraphFaultError("graph.invalid", position, what)
        self._connections += len(left.last) * len(right.first)
        if self._connections > MAX_CONNECTIONS:
            what = f"has more than {MAX_CONNECTIONS} connections between steps"
            raise GraphFaultError("graph.too_large", position, what)
        for step in right.first:
            for each in left.last:
                self.before.setdefault(step, {}).setdefault(each, position)
        if left.join is _Join.ANY:
            self.any_of.update(right.first)


class _Parser:
    """A recursive descent parser; the nesting of parentheses limits its depth."""

    def __init__(self, text: str, *, has_flow: bool) -> None:
        self._tokens = list(_without_joining_newlines(_tokens(text)))
        self._index = 0
        self._depth = 0
        self._has_flow = has_flow
        # The steps after which the next statement with `flow` continues.
        self._tail = _Group((), ())
        self._graph = _Graph()

    def graph(self) -> _Graph:
        while (token := self._next()).kind != "end":
            if token.kind == "separator":
                self._index += 1
                continue
            self._statement()
            if self._next().kind not in ("separator", "end"):
                raise _unexpected(self._next())
        if not self._graph.positions:
            raise _unexpected(token)
        return self._graph

    def _statement(self) -> None:
        is_of_flow = self._has_flow and self._next().text == _FLOW
        if not is_of_flow:
            self._alternatives()
            return
        self._index += 1
        if self._next().text != ">>":
            raise _unexpected(self._next(), "`>>` must follow `flow`")
        self._tail = self._chain(self._tail)

    def _alternatives(self) -> _Group:
        groups = [self._parallel()]
        while self._next().text == "|":
            self._index += 1
            groups.append(self._parallel())
        return _merged(groups, _Join.ANY)

    def _parallel(self) -> _Group:
        groups = [self._chain(self._atom())]
        while self._next().text == "&":
            self._index += 1
            groups.append(self._chain(self._atom()))
        return _merged(groups, _Join.ALL)

    def _chain(self, start: _Group) -> _Group:
        whole = start
        while (operator := self._next()).text == ">>":
            self._index += 1
            after = self._atom()
            self._graph.connect(whole, after, operator.position)
            whole = _Group(whole.first or after.first, after.last, after.join)
        return whole

    def _atom(self) -> _Group:
        token = self._next()
        self._index += 1
        if token.kind == "opening":
            return self._parenthesised(token)
        if token.kind != "name":
            raise _unexpected(token, "expected a step")
        if self._has_flow and token.text == _FLOW:
            raise _unexpected(token, "`flow` must be at the beginning of a statement")
        if self._next().kind == "opening":
            raise _unexpected(self._next(), "calls cannot be combined with other operators than >>")
        self._graph.add(token.text, token.position)
        return _Group((token.text,), (token.text,))

    def _parenthesised(self, opening: _Token) -> _Group:
        self._depth += 1
        if self._depth > MAX_NESTING:
            what = f"is nested deeper than {MAX_NESTING}"
            raise GraphFaultError("graph.too_deep", opening.position, what)
        inside = self._alternatives()
        token = self._next()
        if token.kind == "end":
            raise GraphFaultError("graph.syntax", opening.position, "a `(` is not closed")
        if token.kind != "closing":
            raise _unexpected(token)
        self._index += 1
        self._depth -= 1
        return inside

    def _next(self) -> _Token:
        return self._tokens[self._index]


def _merged(groups: list[_Group], join: _Join) -> _Group:
    if len(groups) == 1:
        return groups[0]
    is_mixed = any(len(group.last) > 1 and group.join is not join for group in groups)
    return _Group(
        tuple(dict.fromkeys(step for group in groups for step in group.first)),
        tuple(dict.fromkeys(step for group in groups for step in group.last)),
        _Join.MIXED if is_mixed else join,
    )


def _unexpected(token: _Token, what: str = "is not expected here") -> GraphFaultError:
    if token.kind == "end":
        return GraphFaultError("graph.syntax", token.position, "ends where a step is expected")
    found = "the end of a statement" if token.kind == "separator" else f"`{token.text}`"
    return GraphFaultError("graph.syntax", token.position, f"{found}: {what}")


def _tokens(text: str) -> Iterator[_Token]:
    position = depth = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            what = (
                f"{text[position]!r} is not allowed; a graph with `&`, `|`, parentheses or several "
                "statements has only names and `>>` beside them"
            )
            raise GraphFaultError("graph.syntax", position, what)
        kind = match.lastgroup
        depth += (kind == "opening") - (kind == "closing")
        if kind == "semicolon" or (kind == "newline" and depth <= 0):
            yield _Token("separator", match[0], position)
        elif kind not in ("space", "newline"):
            yield _Token(kind, match[0], position)
        position = match.end()
    yield _Token("end", "", len(text.rstrip()))


def _without_joining_newlines(tokens: Iterable[_Token]) -> Iterator[_Token]:
    """Leave out line breaks before and after an operator, which do not end a statement."""
    before: _Token | None = None
    held: _Token | None = None
    for token in tokens:
        if token.text == "\n":
            if before is None or before.kind != "operator":
                held = held or token
            continue
        if held is not None and token.kind != "operator":
            yield held
        held = None
        yield token
        before = token


def _refuse_cycles(graph: _Graph) -> None:
    # Steps are removed as soon as they wait for no other step. The rest is in or after a cycle.
    waiting = {step: len(before) for step, before in graph.before.items()}
    after: dict[str, list[str]] = {}
    for step, before in graph.before.items():
        for each in before:
            after.setdefault(each, []).append(step)
    ready = [step for step in graph.positions if step not in waiting]
    while ready:
        for step in after.get(ready.pop(), ()):
            waiting[step] -= 1
            if not waiting[step]:
                ready.append(step)
    left = {step for step, count in waiting.items() if count}
    if not left:
        return
    path: list[str] = []
    step = min(left, key=lambda each: graph.positions[each])
    while step not in path:
        path.append(step)
        step = next(each for each in graph.before[step] if each in left)
    circle = [*path[path.index(step) :], step][::-1]
    position = max(graph.before[then][first] for first, then in pairwise(circle))
    shown = " >> ".join(circle if len(circle) <= _MAX_SHOWN else [*circle[:_MAX_SHOWN], "…"])
    raise GraphFaultError("graph.cycle", position, f"the steps wait for each other: {shown}")
