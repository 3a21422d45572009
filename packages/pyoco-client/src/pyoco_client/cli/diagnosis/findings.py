"""What was seen of a gateway, and what is said about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, Final


class Level(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the report: what was looked at, how it is, and what to do next if not well."""

    check: str
    level: Level
    message: str
    next_step: str | None = None


def fine(check: str, message: str) -> Finding:
    """Return that all is well."""
    return Finding(check, Level.OK, message)


def warning(check: str, message: str, next_step: str) -> Finding:
    """Return that something wants a look."""
    return Finding(check, Level.WARNING, message, next_step)


def failure(check: str, message: str, next_step: str) -> Finding:
    """Return that something does not work."""
    return Finding(check, Level.FAILURE, message, next_step)


@dataclass(frozen=True, slots=True)
class Target:
    """Which gateway is looked at, and with which key."""

    server: str
    # Where the address is from, for a reader who did not expect it.
    source: str
    api_key_header: str
    has_key: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for a request; `body` is its JSON, None where it is none."""

    status: int
    headers: Mapping[str, str]
    body: Any
    began_at: float
    ended_at: float

    @property
    def told_at(self) -> float | None:
        """When it was sent, by the clock of whoever sent it, to the second."""
        try:
            return parsedate_to_datetime(self.headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError):
            return None

    @property
    def err_id(self) -> str | None:
        """The id of the failure; only a gateway says one."""
        found = self.body.get("err_id") if isinstance(self.body, Mapping) else None
        return found if isinstance(found, str) else None

    @property
    def detail(self) -> str:
        """What the answer says of itself, for people."""
        if isinstance(self.body, Mapping):
            for name in ("detail", "message"):
                if isinstance(self.body.get(name), str):
                    return str(self.body[name])
        return f"HTTP {self.status}"


class TroubleKind(StrEnum):
    """Why no answer came."""

    NAME = "name"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    CERTIFICATE = "certificate"
    ENVIRONMENT = "environment"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Trouble:
    """No answer came."""

    kind: TroubleKind
    reason: str


Seen = Answer | Trouble

# What is asked for. The health comes first: without it nothing else is asked.
HEALTH: Final = "GET /health?verbose=1"
RUNS: Final = "GET /runs?limit=1"
WORKERS: Final = "GET /workers?scope=all&include_hidden=true&limit=500"
QUEUES: Final = "GET /queues"
DEAD_LETTERS: Final = "GET /dlq?limit=200"
# Refused for its missing form by whoever may use it, so nothing is stored by it.
WRITING: Final = "POST /runs/yaml/validate"
