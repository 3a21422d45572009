"""Problems of a graph document and of the small languages inside it."""

from collections.abc import Iterable
from typing import Final

from pydantic import Field

from pyoco_protocol.wire import WireModel

MAX_PROBLEMS: Final = 100


_SHOWN_CHARS: Final = 60


def shown(text: str) -> str:
    """Return a text of a document as a message shows it: long ones only in part."""
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


class GraphProblem(WireModel):
    """One problem of a graph document. `code` is stable and meant for programs."""

    code: str = Field(examples=["FIELD_INVALID"])
    where: str = Field(examples=["nodes[3].retry.maxAttempts"])
    message: str = Field(examples=["must be at most 20"])

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class GraphInvalidError(Exception):
    """A graph document is invalid; lists the problems found, up to `MAX_PROBLEMS`."""

    def __init__(self, problems: Iterable[GraphProblem]) -> None:
        self.problems = tuple(problems)[:MAX_PROBLEMS]
        super().__init__("; ".join(map(str, self.problems)))


class LanguageError(ValueError):
    """A condition or template cannot be parsed. `position` counts characters from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} (at character {position + 1})")
        self.message = message
        self.position = position
