"""The errors of the client."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from pyoco_client.answers import RawAnswer
    from pyoco_client.models import Run
    from pyoco_protocol.problems.catalogue_entry import Language

# The hint for an unusable proxy or certificate file.
ENVIRONMENT_HINT: Final = (
    "Check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR."
)


class PyocoError(Exception):
    """Base class of all errors of the client.

    `err_id` and `msg_id` are stable ids, `hint` says what to do next, `request_id` finds the
    request in the gateway's log, `status` is the HTTP status. Each is None if it is not known.
    `answer` is the answer that the error stands for, if there is one.
    """

    answer: "RawAnswer | None" = None

    def __init__(
        self,
        message: str,
        *,
        err_id: str | None = None,
        msg_id: str | None = None,
        hint: str | None = None,
        request_id: str | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.err_id = err_id
        self.msg_id = msg_id
        self.hint = hint
        self.request_id = request_id
        self.status = status

    def __str__(self) -> str:
        return f"{self.err_id}: {self.message}" if self.err_id else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses have other arguments than a message. Process pools pickle errors all the same.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[PyocoError], arguments: tuple[Any, ...], values: dict[str, Any]
) -> PyocoError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(values)
    return error


class ConfigurationError(PyocoError, ValueError):
    """A setting of the client is wrong: an address, a key, the file of contexts."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, err_id=None, hint=hint)


class GatewayUnreachableError(PyocoError):
    """The gateway did not answer (ERR-PYOCO-0001).

    `may_have_arrived` is False if the request certainly did not reach the gateway. If it is True,
    the gateway may have accepted a submission: check before you submit again, unless
    `is_repeatable` says that a repetition has no second effect. `is_lasting` is True for a failure
    that will not pass: an unknown host name, an invalid certificate.
    """

    def __init__(
        self,
        server: str,
        reason: str,
        *,
        may_have_arrived: bool,
        is_repeatable: bool = False,
        is_lasting: bool = False,
        request_id: str | None = None,
        lang: str | None = None,
    ) -> None:
        # Imported here because the catalogue imports pydantic, which is slow to load.
        from pyoco_protocol.problems import CATALOGUE

        entry = CATALOGUE["ERR-PYOCO-0001"]
        super().__init__(
            f"no answer from {server}: {reason}",
            err_id=entry.err_id,
            msg_id=entry.msg_id,
            hint=entry.hint[language_of(lang)],
            request_id=request_id,
        )
        self.server = server
        self.may_have_arrived = may_have_arrived
        self.is_repeatable = is_repeatable
        self.is_lasting = is_lasting


def language_of(lang: str | None) -> "Language":
    """Return the language of messages for a language tag."""
    return "ja" if lang is not None and lang.lower().partition("-")[0] == "ja" else "en"


class UnexpectedAnswerError(PyocoError):
    """The answer is not one of a gateway: a proxy or another server sent it."""

    def __init__(
        self, server: str, what: str, status: int | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(
            f"{server} does not answer like a gateway: {what}",
            hint="Check that the address is that of a Pyoco gateway, not that of a proxy.",
            status=status,
            request_id=request_id,
        )
        self.server = server


class WaitTimeoutError(PyocoError, TimeoutError):
    """The run had not ended at the end of the timeout; the run itself continues."""

    what: ClassVar[str] = "run"

    def __init__(self, run_id: str, timeout: float, last_status: str | None) -> None:
        super().__init__(
            f"{self.what} {run_id} is {last_status or 'in an unknown state'} after {timeout:g} s",
            hint=f"The {self.what} continues; wait again or look it up later by its id.",
        )
        self.run_id = run_id
        self.last_status = last_status


class RunEndedError(PyocoError):
    """The run ended without completing; `run` is its last snapshot."""

    def __init__(self, message: str, run: "Run", *, hint: str | None = None) -> None:
        super().__init__(message, err_id=run.err_id, hint=hint)
        self.run = run
        self.run_id = run.run_id


class RunFailed(RunEndedError):  # noqa: N818 - named after the status of the run
    """The run failed; the message has its error, `run.err_id` the kind of failure."""

    def __init__(self, run: "Run") -> None:
        super().__init__(
            f"run {run.run_id} failed: {run.error or 'no reason recorded'}",
            run,
            hint="Its task records have the tracebacks, its logs have its output.",
        )


class RunCancelled(RunEndedError):  # noqa: N818 - named after the status of the run
    """The run was cancelled before it completed."""

    def __init__(self, run: "Run") -> None:
        why = f": {run.cancel_reason}" if run.cancel_reason else ""
        super().__init__(f"run {run.run_id} was cancelled{why}", run)


class PyocoApiError(PyocoError):
    """The gateway answered with an error; `detail` is its description.

    `retry_after_sec` is its `Retry-After` header, or None. Errors of executions and graphs also
    have a stable `code` and `details`; others have None and no details.
    """

    def __init__(
        self, status: int, body: Mapping[str, Any], *, retry_after_sec: float | None = None
    ) -> None:
        fields = fields_of(body)
        self.detail: Any = fields.get("detail")
        super().__init__(
            _text(fields, "message")
            or (self.detail if isinstance(self.detail, str) else f"HTTP {status}"),
            err_id=_text(fields, "err_id"),
            msg_id=_text(fields, "msg_id"),
            hint=_text(fields, "hint"),
            request_id=_text(fields, "request_id"),
            status=status,
        )
        self.body: Final = dict(body)
        self.code = _text(fields, "code")
        self.details: Final[dict[str, Any]] = fields.get("details") or {}
        self.retry_after_sec = retry_after_sec
        # Notes for tracebacks: the message names only the kind of error.
        for line in _notes(self):
            self.add_note(line)

    @property
    def run_id(self) -> str | None:
        """The run id in the answer, if any."""
        return _text(self.body, "run_id")

    @property
    def problems(self) -> tuple[Mapping[str, Any], ...]:
        """The problems of the request, if the answer lists them.

        Each has `where` and `what`; those of a graph have `code`, `where` and `message`.
        """
        listed = self.details.get("problems", self.body.get("problems"))
        if not isinstance(listed, list):
            return ()
        return tuple(problem for problem in listed if isinstance(problem, dict))


def fields_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of an error body, with the same names for both of its forms.

    The routes of executions and graphs answer with `{"error": {code, message, details}}`.
    """
    error = body.get("error")
    if not isinstance(error, dict):
        return body
    details = error.get("details")
    details = details if isinstance(details, dict) else {}
    names = {"detail": "detail", "err_id": "errId", "hint": "hint", "request_id": "requestId"}
    known = {name: details.get(sent) for name, sent in names.items()}
    return {**known, "message": error.get("message"), "code": error.get("code"), "details": details}


def _notes(error: PyocoApiError) -> Iterator[str]:
    lines = [
        f"{each.get('where')}: {each.get('what', each.get('message'))}" for each in error.problems
    ]
    if not lines and isinstance(error.detail, str) and error.detail != error.message:
        lines = [error.detail]
    yield from lines
    if error.hint is not None:
        yield f"hint: {error.hint}"


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    return value if isinstance(value, str) else None


class InvalidRequestError(PyocoApiError):
    """The request is invalid; repeating it does not help."""


class ListQueryError(InvalidRequestError):
    """The query of a list is invalid, or its cursor belongs to another query."""


class RequestTooLargeError(InvalidRequestError):
    """The params, the workflow file or the headers are larger than the gateway's limit."""


class AccessDeniedError(PyocoApiError):
    """The caller has no permission."""


class ApiKeyMissingError(AccessDeniedError):
    """The gateway requires an API key, and the request has none."""


class ApiKeyInvalidError(AccessDeniedError):
    """The API key is mistyped, expired or revoked."""


class ScopeMissingError(AccessDeniedError):
    """The API key is valid, but lacks the scope for this request."""


class NotFoundError(PyocoApiError):
    """The resource does not exist, or the caller may not see it."""


class RunNotFoundError(NotFoundError):
    """No run has this id, or the caller may not see it."""


class WorkerNotFoundError(NotFoundError):
    """No worker has this id."""


class DeadLetterNotFoundError(NotFoundError):
    """The dead letter does not exist, or no longer exists."""


class NotSupportedError(NotFoundError):
    """The gateway does not have this route: it may be older than this client."""


class ConflictError(PyocoApiError):
    """The request conflicts with the current state of the resource."""


class IdempotencyConflictError(ConflictError):
    """The idempotency key was used with a different request; `run_id` is the run of that one."""


class RunNotOverError(ConflictError):
    """Only a run that has ended can be deleted."""


class NotRedrivableError(ConflictError):
    """The dead letter cannot be redriven."""


class TooManyRequestsError(PyocoApiError):
    """The caller sends too many requests or has too many open streams."""


class UnavailableError(PyocoApiError):
    """The gateway cannot do this now; try again later."""


class BrokerUnavailableError(UnavailableError):
    """The broker of the gateway is down; nothing was changed."""


class ListNotReadyError(UnavailableError):
    """The gateway has just started and is still reading the runs."""


class SubmissionUnconfirmedError(UnavailableError):
    """The gateway does not know whether the run was accepted; look it up by `run_id`."""


class ServerFaultError(PyocoApiError):
    """An unexpected error in the gateway; find it in its log by `request_id`."""
