"""What can be wrong with a workflow file, said so that its author finds the place."""

from collections.abc import Iterable
from typing import Final

from pydantic import Field

from pyoco_protocol.wire import WireModel

MAX_PROBLEMS: Final = 50
_MAX_SHOWN_CHARS: Final = 60


class WorkflowProblem(WireModel):
    """One fault of a workflow file; `code` is for programs and stays as it is."""

    code: str = Field(examples=["schema.unknown_key"])
    where: str = Field(examples=["tasks.extract.retries"])
    line: int | None = Field(default=None, ge=1, examples=[7])
    column: int | None = Field(default=None, ge=1, examples=[5])
    what: str = Field(examples=["is no key of a task"])

    def __str__(self) -> str:
        place = self.where if self.line is None else f"{self.where} (line {self.line})"
        return f"{place}: {self.what}"


class WorkflowInvalidError(Exception):
    """A workflow file with one or more faults, all that could be found at once."""

    def __init__(self, problems: Iterable[WorkflowProblem]) -> None:
        listed = list(problems)
        self.problems = tuple(listed[:MAX_PROBLEMS])
        super().__init__("; ".join(map(str, self.problems)))


def shown(text: str) -> str:
    """Return what an author wrote, short and on one line, to be quoted in a message."""
    cut = text if len(text) <= _MAX_SHOWN_CHARS else text[:_MAX_SHOWN_CHARS] + "…"
    return repr(cut)
