"""The answers of a gateway to the checks, and the findings about them."""

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, Final


class Level(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: the check, its result, and the next step if it is not ok."""

    check: str
    level: Level
    message: str
    next_step: str | None = None


def fine(check: str, message: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(check, Level.OK, message)


def warning(check: str, message: str, next_step: str) -> Finding:
    """Return a finding that needs attention."""
    return Finding(check, Level.WARNING, message, next_step)


def failure(check: str, message: str, next_step: str) -> Finding:
    """Return a finding about something that does not work."""
    return Finding(check, Level.FAILURE, message, next_step)


@dataclass(frozen=True, slots=True)
class Target:
    """The gateway to check, and whether requests carry a key."""

    server: str
    # The setting that gave the address: an option, a variable, a context or the default.
    source: str
    api_key_header: str
    has_key: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request; `body` is its JSON, or None if it is not JSON."""

    status: int
    headers: Mapping[str, str]
    body: Any
    began_at: float
    ended_at: float

    @property
    def server_time(self) -> float | None:
        """The time in the `Date` header, by the server's clock, in whole seconds."""
        try:
            return parsedate_to_datetime(self.headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError):
            return None

    @property
    def err_id(self) -> str | None:
        """The error id; only a gateway sends one."""
        found = self._problem.get("err_id") or self._problem.get("errId")
        return found if isinstance(found, str) else None

    @property
    def detail(self) -> str:
        """The description in an error body, or the HTTP status."""
        for name in ("detail", "message"):
            if isinstance(found := self._problem.get(name), str):
                return found
        return f"HTTP {self.status}"

    @property
    def _problem(self) -> Mapping[str, Any]:
        """The fields of an error body; errors on the paths of executions nest them."""
        found = self.body
        for name in ("error", "details"):
            inner = found.get(name) if isinstance(found, Mapping) else None
            found = inner if isinstance(inner, Mapping) else found
        return found if isinstance(found, Mapping) else {}


class TroubleKind(StrEnum):
    """The reason why there is no answer."""

    NAME = "name"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    CERTIFICATE = "certificate"
    ENVIRONMENT = "environment"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Trouble:
    """A request without an answer."""

    kind: TroubleKind
    reason: str


Seen = Answer | Trouble

# The requests. The health request comes first: if it fails, the others are not sent.
HEALTH: Final = "GET /health?verbose=1"
RUNS: Final = "GET /runs?limit=1"
WORKERS: Final = "GET /workers?scope=all&include_hidden=true&limit=500"
QUEUES: Final = "GET /queues"
DEAD_LETTERS: Final = "GET /dlq?limit=200"
# Tests the scope runs:write and stores nothing: the gateway rejects the request without its form.
WRITING: Final = "POST /runs/yaml/validate"
EXECUTIONS: Final = "GET /executions?limit=1"
# As above: without an idempotency key or a document, the gateway rejects these requests.
_NODE: Final = "/executions/00000000-0000-0000-0000-000000000000/nodes/none"
# The scopes, each with a request that needs it. A key with executions:write may do what those with
# executions:work and executions:resume may do.
SCOPE_REQUESTS: Final[Mapping[str, str]] = {
    "runs:read": RUNS,
    "runs:write": WRITING,
    "ops": WORKERS,
    "executions:read": EXECUTIONS,
    "executions:write": "POST /executions",
    "executions:work": f"POST {_NODE}/start",
    "executions:resume": f"POST {_NODE}/resume",
    "graphs:write": "POST /graphs/validate",
}
