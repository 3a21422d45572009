"""Problems of a workflow file and their locations."""

from collections.abc import Iterable
from typing import Final

from pydantic import Field

from pyoco_protocol.wire import WireModel

MAX_PROBLEMS: Final = 50
_MAX_SHOWN_CHARS: Final = 60


class WorkflowProblem(WireModel):
    """One problem of a workflow file. `code` is stable and meant for programs."""

    code: str = Field(examples=["schema.unknown_key"])
    where: str = Field(examples=["tasks.extract.retries"])
    line: int | None = Field(default=None, ge=1, examples=[7])
    column: int | None = Field(default=None, ge=1, examples=[5])
    what: str = Field(examples=["is not a key of a task"])

    def __str__(self) -> str:
        place = self.where if self.line is None else f"{self.where} (line {self.line})"
        return f"{place}: {self.what}"


class WorkflowInvalidError(Exception):
    """A workflow file is invalid; lists the problems found, up to `MAX_PROBLEMS`."""

    def __init__(self, problems: Iterable[WorkflowProblem]) -> None:
        listed = list(problems)
        self.problems = tuple(listed[:MAX_PROBLEMS])
        super().__init__("; ".join(map(str, self.problems)))


def shown(text: str) -> str:
    """Return text of the file, shortened and quoted on one line, for a message."""
    cut = text if len(text) <= _MAX_SHOWN_CHARS else text[:_MAX_SHOWN_CHARS] + "…"
    return repr(cut)
