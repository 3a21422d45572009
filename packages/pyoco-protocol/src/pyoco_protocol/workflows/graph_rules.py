"""Checks whether the graph of a workflow can be built, without running it.

A graph is in operator form or in the engine's graph language. The engine must not be imported
here: the caller passes its parser and builder. Gateway and worker apply the same rules.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pyoco_protocol.workflows.document import Text, WorkflowDocument, document_of
from pyoco_protocol.workflows.expressions import expression_fault
from pyoco_protocol.workflows.operators import (
    MAX_NESTING,
    MAX_STEPS,
    GraphFaultError,
    StepGraph,
    is_operator_form,
    parse_operators,
)
from pyoco_protocol.workflows.problems import WorkflowInvalidError, WorkflowProblem, shown
from pyoco_protocol.workflows.scan import scan

MAX_GRAPH_CHARS: Final = 65_536
# Size of all graph texts with each pipe counted per use, because the engine reads it per use.
MAX_EXPANDED_CHARS: Final = 4 * MAX_GRAPH_CHARS
MAX_PIPE_DEPTH: Final = 16
MAX_ITERATIONS: Final = 1_000_000

_POSITION: Final = re.compile(r"at position ([0-9]{1,7})")
# Exceptions that the engine may raise for unexpected input.
BUILD_ERRORS: Final = (ValueError, TypeError, RecursionError, MemoryError, SyntaxError)


@dataclass(frozen=True, slots=True)
class GraphLanguage:
    """Functions of the engine: `parse` returns terms, `build` makes a flow from all parts."""

    parse: Callable[[str], Any]
    build: Callable[[str, Iterable[str], Mapping[str, str]], object]


@dataclass(frozen=True, slots=True)
class Workflow:
    """A valid workflow; a worker that has its tasks can run it."""

    document: WorkflowDocument
    # The tasks that its graph uses. Others are ignored.
    used: frozenset[str]
    # The steps of a graph in operator form; None for a graph in the engine's language.
    steps: StepGraph | None = None


def read_workflow(data: bytes | str, language: GraphLanguage) -> Workflow:
    """Return the workflow in a file; raise WorkflowInvalidError with all its problems.

    Schema and graph are checked only if the file is valid YAML. The graph is checked even if
    other parts of the file violate the schema.
    """
    document, problems = document_of(scan(data))
    if document is None:
        raise WorkflowInvalidError(problems)
    rules = _Rules(document, language)
    used = rules.used_tasks()
    problems += rules.problems
    if problems:
        raise WorkflowInvalidError(problems)
    return Workflow(document, frozenset(used), rules.steps)


class _Use(NamedTuple):
    """A step of a graph: its task and its node name."""

    task: str
    node: str


@dataclass(slots=True)
class _Terms:
    """The terms of one graph text, without those of its pipes."""

    text: Text
    uses: list[_Use] = field(default_factory=list)
    pipes: list[str] = field(default_factory=list)
    expressions: list[str] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    has_control_flow: bool = False


@dataclass(slots=True)
class _Expanded:
    """A graph text with its pipes inserted."""

    chars: int
    uses: list[_Use]
    has_control_flow: bool


class _Rules:
    def __init__(self, document: WorkflowDocument, language: GraphLanguage) -> None:
        self._document = document
        self._language = language
        self._chars = 0
        self.problems: list[WorkflowProblem] = []
        self.steps: StepGraph | None = None

    def used_tasks(self) -> set[str]:
        """Return the tasks that the graph uses; add problems to `problems`."""
        document = self._document
        graph: _Terms | None = None
        if is_operator_form(document.graph.value, document.tasks):
            self.steps = self._steps_of(document.graph)
        else:
            graph = self._terms_of(document.graph)
        pipes = {name: self._terms_of(text) for name, text in document.pipes.items()}
        read = [terms for terms in (graph, *pipes.values()) if terms is not None]
        for terms in read:
            self._check(terms)
        if self.steps is not None:
            return set(self.steps.positions)
        if graph is None or self.problems:
            return set()
        expanded = self._expanded(graph, {n: t for n, t in pipes.items() if t}, ())
        if expanded is None:
            return set()
        if not expanded.has_control_flow:
            self._refuse_repeats(expanded.uses)
        if not self.problems:
            self._build()
        return {use.task for use in expanded.uses}

    def _steps_of(self, text: Text) -> StepGraph | None:
        if self._is_too_long(text):
            return None
        try:
            steps = parse_operators(text.value, self._document.tasks)
        except GraphFaultError as fault:
            self._add(fault.code, text, str(fault), fault.position)
            return None
        for step, position in steps.positions.items():
            self._check_task(step, text, position)
        return steps

    def _is_too_long(self, text: Text) -> bool:
        self._chars += len(text.value)
        if self._chars <= MAX_GRAPH_CHARS:
            return False
        what = f"the graph and its pipes have more than {MAX_GRAPH_CHARS} characters"
        self._add("graph.too_large", text, what)
        return True

    def _terms_of(self, text: Text) -> _Terms | None:
        if self._is_too_long(text):
            return None
        if _nesting(text.value) > MAX_NESTING:
            self._add("graph.too_deep", text, f"is nested deeper than {MAX_NESTING}")
            return None
        terms = _Terms(text)
        try:
            for term in _all_terms(self._language.parse(text.value)):
                _note(terms, term)
        except BUILD_ERRORS as error:
            self._add_engine_error("graph.syntax", text, error)
            return None
        return terms

    def _check(self, terms: _Terms) -> None:
        document = self._document
        for task in dict.fromkeys(use.task for use in terms.uses):
            self._check_task(task, terms.text, task)
        for pipe in dict.fromkeys(terms.pipes):
            if pipe not in document.pipes:
                what = f"uses the pipe {shown(pipe)}, which is not under `pipes`"
                self._add("graph.undefined_pipe", terms.text, what, pipe)
        for expression in dict.fromkeys(terms.expressions):
            fault = expression_fault(expression)
            if fault is not None:
                what = f"the expression {shown(expression)}: {fault}"
                self._add("graph.expression", terms.text, what, expression)
        for count in dict.fromkeys(terms.counts):
            if len(count) > len(str(MAX_ITERATIONS)) or int(count) > MAX_ITERATIONS:
                what = f"{shown(count)} iterations are more than {MAX_ITERATIONS}"
                self._add("graph.iterations", terms.text, what, count)

    def _check_task(self, task: str, text: Text, at: str | int) -> None:
        if task not in self._document.tasks:
            what = f"uses the task {shown(task)}, which is not under `tasks`"
            self._add("graph.undefined_task", text, what, at)

    def _expanded(
        self, terms: _Terms, pipes: Mapping[str, _Terms], inside: tuple[str, ...]
    ) -> _Expanded | None:
        if len(inside) > MAX_PIPE_DEPTH:
            what = f"pipes are nested deeper than {MAX_PIPE_DEPTH}"
            self._add("graph.pipe_depth", terms.text, what)
            return None
        whole = _Expanded(len(terms.text.value), list(terms.uses), terms.has_control_flow)
        for name in terms.pipes:
            if name in inside:
                what = f"pipes form a cycle: {' -> '.join((*inside, name))}"
                self._add("graph.pipe_circle", terms.text, what, name)
                return None
            part = self._expanded(pipes[name], pipes, (*inside, name))
            if part is None:
                return None
            whole.chars += part.chars
            whole.uses += part.uses
            whole.has_control_flow |= part.has_control_flow
            # Checked after each pipe: nested pipes grow exponentially.
            if len(whole.uses) > MAX_STEPS or whole.chars > MAX_EXPANDED_CHARS:
                break
        if len(whole.uses) > MAX_STEPS or whole.chars > MAX_EXPANDED_CHARS:
            what = (
                f"has more than {MAX_STEPS} steps or {MAX_EXPANDED_CHARS} characters "
                "with its pipes inserted"
            )
            self._add("graph.too_large", terms.text, what)
            return None
        return whole

    def _refuse_repeats(self, uses: list[_Use]) -> None:
        seen: set[str] = set()
        reported: set[str] = set()
        for use in uses:
            if use.node in seen and use.node not in reported:
                reported.add(use.node)
                what = (
                    f"has the step {shown(use.node)} twice, and each would wait for the other; "
                    f"give one of them another name: `again: {use.task}`"
                )
                self._add("graph.repeated_task", self._document.graph, what, use.node)
            seen.add(use.node)

    def _build(self) -> None:
        document = self._document
        pipes = {name: text.value for name, text in document.pipes.items()}
        try:
            self._language.build(document.graph.value, document.tasks, pipes)
        except BUILD_ERRORS as error:
            self._add_engine_error("graph.invalid", document.graph, error)

    def _add_engine_error(self, code: str, text: Text, error: BaseException) -> None:
        what = "is too complex" if isinstance(error, RecursionError | MemoryError) else str(error)
        found = _POSITION.search(what)
        line = text.line if found is None else text.line_of(int(found[1]))
        self.problems.append(
            WorkflowProblem(code=code, where=text.where, line=line, what=what[:300])
        )

    def _add(self, code: str, text: Text, what: str, at: str | int | None = None) -> None:
        """Add a problem at a position of the text, or at the first occurrence of a part of it."""
        position = max(text.value.find(at), 0) if isinstance(at, str) else at
        line = text.line if position is None else text.line_of(position)
        self.problems.append(WorkflowProblem(code=code, where=text.where, line=line, what=what))


def _nesting(text: str) -> int:
    deepest = depth = 0
    for character in text:
        if character == "{":
            depth += 1
            deepest = max(deepest, depth)
        elif character == "}":
            depth -= 1
    return deepest


def _all_terms(pipeline: Any) -> Iterator[Any]:
    """Yield each term of a parsed graph, including nested terms."""
    for term in pipeline.terms:
        yield term
        for case in getattr(term, "cases", ()):
            yield from _all_terms(case.branch)
        for inside in (getattr(term, "default", None), getattr(term, "body", None)):
            if inside is not None:
                yield from _all_terms(inside)


def _note(terms: _Terms, term: Any) -> None:
    match type(term).__name__:
        case "TaskTerm":
            terms.uses.append(_Use(term.name, term.node_name or term.name))
            return
        case "PipeRefTerm":
            terms.pipes.append(term.name)
            return
        case "SwitchTerm":
            terms.expressions.append(term.on)
        case "RepeatTerm":
            (terms.counts if _is_number(term.count) else terms.expressions).append(term.count)
        case "ForEachTerm":
            terms.expressions.append(term.over)
        case "UntilTerm":
            terms.expressions.append(term.cond)
            if term.max_iter is not None and _is_number(term.max_iter):
                terms.counts.append(term.max_iter)
        case other:
            # Terms of a newer engine are refused, because no rule covers them.
            raise TypeError(f"a graph must not contain a {other}")
    terms.has_control_flow = True


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
