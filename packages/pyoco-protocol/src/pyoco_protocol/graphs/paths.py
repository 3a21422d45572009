"""Paths to values of an execution, such as `input.orderId` or `nodes.fetch.output.lines[0]`."""

import re
from dataclasses import dataclass
from typing import Final, Literal

from pyoco_protocol.graphs.problems import LanguageError, shown

Root = Literal[
    "input",
    "output",
    "error",
    "status",
    "node_output",
    "node_error",
    "node_status",
    "execution_id",
    "execution_created_at",
    "node_id",
    "node_attempt",
]
Steps = tuple[str | int, ...]

# `nodes.<id>` allows the characters of node ids, which are those of names.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_INDEX: Final = re.compile(r"\[([0-9]{1,9})\]")
_NODE_ROOTS: Final[dict[str, Root]] = {
    "output": "node_output",
    "error": "node_error",
    "status": "node_status",
}
_EXECUTION_ROOTS: Final[dict[tuple[str, str], Root]] = {
    ("execution", "id"): "execution_id",
    ("execution", "createdAt"): "execution_created_at",
    ("node", "id"): "node_id",
    ("node", "attempt"): "node_attempt",
}
_ERROR_FIELDS: Final = frozenset({"code", "message"})


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path: where it begins, the node it names, and the steps into the value."""

    root: Root
    node: str | None
    steps: Steps
    text: str

    @property
    def fact_key(self) -> str:
        """The key of this value among the facts of the input or of a node's output."""
        base = "input" if self.root == "input" else "output"
        return base + steps_text(self.steps)


def steps_text(steps: Steps) -> str:
    """Return steps as they are written in a path."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def read_path(
    text: str, start: int, *, edge: bool = True, execution: bool = False
) -> tuple[Path, int]:
    """Return the path at `start` and the position after it; raise LanguageError.

    `edge` allows `output`, `error` and `status` of an edge's source; `execution` allows
    `execution.*` and `node.*`.
    """
    steps, end = _read_steps(text, start)
    written = text[start:end]
    first = steps[0]
    rest = steps[1:]
    if first == "input":
        return Path("input", None, rest, written), end
    if edge and first == "output":
        return Path("output", None, rest, written), end
    if edge and first == "status" and not rest:
        return Path("status", None, (), written), end
    if edge and first == "error":
        _check_error(rest, start)
        return Path("error", None, rest, written), end
    if first == "nodes":
        return _node_path(steps, written, start), end
    if execution and len(steps) == 2 and (first, rest[0]) in _EXECUTION_ROOTS:
        return Path(_EXECUTION_ROOTS[(str(first), str(rest[0]))], None, (), written), end
    allowed = ["input"]
    allowed += ["output", "error", "status"] if edge else []
    allowed += ["nodes.<id>.output", "nodes.<id>.error", "nodes.<id>.status"]
    if execution:
        allowed += ["execution.id", "execution.createdAt", "node.id", "node.attempt"]
    raise LanguageError(
        f"{shown(written)!r} is not a path; a path begins with {', '.join(allowed)}", start
    )


def _read_steps(text: str, start: int) -> tuple[Steps, int]:
    match = _NAME.match(text, start)
    if match is None:
        raise LanguageError("a path is expected", start)
    steps: list[str | int] = [match.group()]
    end = match.end()
    while end < len(text):
        if text[end] == ".":
            match = _NAME.match(text, end + 1)
            if match is None:
                raise LanguageError("a name (A-Z a-z 0-9 _ -) is expected after the dot", end + 1)
            steps.append(match.group())
        elif text[end] == "[":
            match = _INDEX.match(text, end)
            if match is None:
                raise LanguageError("an index such as [0] is expected", end)
            steps.append(int(match.group(1)))
        else:
            break
        end = match.end()
    return tuple(steps), end


def _node_path(steps: Steps, written: str, start: int) -> Path:
    root = _NODE_ROOTS.get(str(steps[2])) if len(steps) > 2 else None
    if root is None or not isinstance(steps[1], str) or not isinstance(steps[2], str):
        raise LanguageError(
            f"{shown(written)!r} must go on with .output, .error or .status after the node id",
            start,
        )
    rest = steps[3:]
    if root == "node_status" and rest:
        raise LanguageError("a status has no fields", start)
    if root == "node_error":
        _check_error(rest, start)
    return Path(root, steps[1], rest, written)


def _check_error(rest: Steps, start: int) -> None:
    if rest and (len(rest) > 1 or rest[0] not in _ERROR_FIELDS):
        raise LanguageError("an error has the fields code and message only", start)
