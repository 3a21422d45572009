"""Errors of the routes of the HTTP API."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from pydantic import JsonValue

from pyoco_protocol.problems.base import FaultyInputError, PyocoError, TooLargeError
from pyoco_protocol.problems.catalogue import CATALOGUE


class InvalidRequestError(FaultyInputError):
    """The request does not fit its schema."""

    entry = CATALOGUE["ERR-PYOCO-0002"]


class ParamsTooLargeError(TooLargeError):
    """The params of a submission are above `PYOCO_MAX_PARAMS_BYTES`."""

    entry = CATALOGUE["ERR-PYOCO-0101"]
    what = "params"


class BodyTooLargeError(TooLargeError):
    """The body of a request is above the limit of its route."""

    entry = CATALOGUE["ERR-PYOCO-0101"]
    what = "request body"


class WorkflowTooLargeError(TooLargeError):
    """A workflow file is above `PYOCO_WORKFLOW_YAML_MAX_BYTES`."""

    entry = CATALOGUE["ERR-PYOCO-0016"]
    what = "workflow file"


class WorkflowRefusedError(PyocoError):
    """A workflow file is invalid; lists every fault with its location."""

    entry = CATALOGUE["ERR-PYOCO-0002"]
    status = HTTPStatus.UNPROCESSABLE_ENTITY

    def __init__(self, problems: Sequence[Mapping[str, JsonValue]], detail: str) -> None:
        listed: list[JsonValue] = [dict(problem) for problem in problems]
        super().__init__(detail, extra={"problems": listed})


class WorkflowTextGoneError(PyocoError):
    """The stored workflow file is gone, so its run cannot be queued again."""

    entry = CATALOGUE["ERR-PYOCO-0125"]
    status = HTTPStatus.CONFLICT

    def __init__(self, run_id: str, sha256: str) -> None:
        super().__init__(
            f"the workflow file {sha256} of run {run_id} is gone",
            extra={"run_id": run_id, "workflow_yaml_sha256": sha256},
        )


class WheelTooLargeError(TooLargeError):
    """An uploaded wheel is above `PYOCO_WHEEL_MAX_BYTES`."""

    entry = CATALOGUE["ERR-PYOCO-0002"]
    what = "wheel"


class ListQueryError(FaultyInputError):
    """The query of a list is invalid."""

    entry = CATALOGUE["ERR-PYOCO-0017"]


class ListNotReadyError(PyocoError):
    """The gateway has not read all runs yet, so a list would be incomplete."""

    entry = CATALOGUE["ERR-PYOCO-0123"]
    status = HTTPStatus.SERVICE_UNAVAILABLE
    code = "INDEX_NOT_READY"

    def __init__(self, retry_after_sec: int) -> None:
        super().__init__(
            "the gateway has not read all runs yet", extra={"retry_after_sec": retry_after_sec}
        )
        self.retry_after_sec = retry_after_sec


class WorkersRequestError(FaultyInputError):
    """The query or body of a workers request is invalid."""

    entry = CATALOGUE["ERR-PYOCO-0019"]


class UnsupportedContentTypeError(PyocoError):
    """The route does not accept the content type of the body."""

    entry = CATALOGUE["ERR-PYOCO-0103"]
    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE

    def __init__(self, content_type: str | None, supported: Sequence[str]) -> None:
        super().__init__(f"{content_type or 'no content type'}; send {' or '.join(supported)}")


class ApiKeyMissingError(PyocoError):
    """The caller sent no API key."""

    entry = CATALOGUE["ERR-PYOCO-0014"]
    status = HTTPStatus.UNAUTHORIZED

    def __init__(self, header: str) -> None:
        super().__init__(
            f"no API key in {header} or Authorization",
            hint={
                "en": f"Send your API key in the {header} header (pyoco-client: --api-key).",
                "ja": f"{header}ヘッダーにAPI keyを付けて再試行してください"
                "（pyoco-clientでは--api-key）。",
            },
        )


class ApiKeyInvalidError(PyocoError):
    """The API key is unknown, wrong or revoked. The response does not say which.

    A key that has the form of an earlier server's keys is named as such, whether it exists or not.
    """

    entry = CATALOGUE["ERR-PYOCO-0015"]
    status = HTTPStatus.FORBIDDEN
    code = "UNAUTHENTICATED"
    execution_status = HTTPStatus.UNAUTHORIZED

    def __init__(self, *, is_of_earlier_server: bool = False) -> None:
        super().__init__(
            "the API key was issued by an earlier server and is not accepted by this one; "
            "an operator can issue a new key: pyoco-server-admin api-key create"
            if is_of_earlier_server
            else "the API key is not valid"
        )


class ScopeMissingError(PyocoError):
    """The API key is valid but has none of the scopes that the request may have."""

    entry = CATALOGUE["ERR-PYOCO-0130"]
    status = HTTPStatus.FORBIDDEN

    def __init__(self, scope: str, *others: str) -> None:
        # The first one allows least.
        wanted = " or ".join((scope, *others))
        super().__init__(
            f"this request requires a key with the scope {wanted}", details={"scope": str(scope)}
        )


class TooManyRequestsError(PyocoError):
    """The caller exceeds its rate limit."""

    entry = CATALOGUE["ERR-PYOCO-0104"]
    status = HTTPStatus.TOO_MANY_REQUESTS

    def __init__(self, retry_after_sec: int) -> None:
        super().__init__(
            f"try again in {retry_after_sec} s", extra={"retry_after_sec": retry_after_sec}
        )
        self.retry_after_sec = retry_after_sec


class IdempotencyKeyReusedError(PyocoError):
    """An idempotency key was used again with another request."""

    entry = CATALOGUE["ERR-PYOCO-0102"]
    status = HTTPStatus.CONFLICT
    code = "IDEMPOTENCY_KEY_REUSED"

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"the idempotency key belongs to run {run_id}, submitted with another body",
            extra={"run_id": run_id},
        )


class RunNotFoundError(PyocoError):
    """No run has this id, or it belongs to another tenant."""

    entry = CATALOGUE["ERR-PYOCO-0005"]
    status = HTTPStatus.NOT_FOUND

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} not found")
        self.run_id = run_id


class WorkerNotFoundError(PyocoError):
    """No worker has this id."""

    entry = CATALOGUE["ERR-PYOCO-0020"]
    status = HTTPStatus.NOT_FOUND

    def __init__(self, worker_id: str) -> None:
        super().__init__(f"worker {worker_id} not found")
        self.worker_id = worker_id


class WheelNotFoundError(PyocoError):
    """No wheel has this name."""

    entry = CATALOGUE["ERR-PYOCO-0023"]
    status = HTTPStatus.NOT_FOUND

    def __init__(self, wheel_name: str) -> None:
        super().__init__(f"wheel {wheel_name} not found")


class WheelVersionError(PyocoError):
    """A wheel is not newer than the latest uploaded version."""

    entry = CATALOGUE["ERR-PYOCO-0022"]
    status = HTTPStatus.CONFLICT

    def __init__(self, package: str, version: str, latest: str) -> None:
        super().__init__(f"{package} {version} is not newer than {latest}")


class DeadLetterNotFoundError(PyocoError):
    """The DLQ has no such entry."""

    entry = CATALOGUE["ERR-PYOCO-0105"]
    status = HTTPStatus.NOT_FOUND

    def __init__(self, entry_id: str) -> None:
        super().__init__(f"DLQ entry {entry_id} not found")


class RunNotOverError(PyocoError):
    """The operation requires a terminal run, and this run has not ended."""

    entry = CATALOGUE["ERR-PYOCO-0118"]
    status = HTTPStatus.CONFLICT

    def __init__(self, run_id: str, status: str) -> None:
        super().__init__(f"run {run_id} is {status}", extra={"run_id": run_id})
        self.run_id = run_id


class NotRedrivableError(PyocoError):
    """The run of this dead letter cannot or must not be submitted again."""

    entry = CATALOGUE["ERR-PYOCO-0120"]
    status = HTTPStatus.CONFLICT

    def __init__(self, seq: int, why: str, run_id: str | None = None) -> None:
        super().__init__(f"DLQ entry {seq}: {why}", extra={"seq": seq, "run_id": run_id})


class RouteNotFoundError(PyocoError):
    """The gateway has no route for this path."""

    entry = CATALOGUE["ERR-PYOCO-0110"]
    status = HTTPStatus.NOT_FOUND

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} does not exist")


class MethodNotAllowedError(PyocoError):
    """The path exists but does not allow this method."""

    entry = CATALOGUE["ERR-PYOCO-0111"]
    status = HTTPStatus.METHOD_NOT_ALLOWED

    def __init__(self, method: str, path: str) -> None:
        super().__init__(f"{path} does not allow {method}")


class SubmitOutcomeUnknownError(PyocoError):
    """The broker did not answer in time, so the run may or may not be accepted."""

    entry = CATALOGUE["ERR-PYOCO-0107"]
    status = HTTPStatus.SERVICE_UNAVAILABLE
    code = "OUTCOME_UNKNOWN"

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"no answer from the broker; run {run_id} may or may not be executed",
            extra={"run_id": run_id},
        )
        self.run_id = run_id


class InternalError(PyocoError):
    """An unexpected exception. The response has only the id under which the log has the details."""

    entry = CATALOGUE["ERR-PYOCO-0106"]

    def __init__(self, error_id: str) -> None:
        super().__init__(f"internal error {error_id}", extra={"error_id": error_id})
        self.error_id = error_id
