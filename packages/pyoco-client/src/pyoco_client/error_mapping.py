"""The mapping from error answers to errors."""

from collections.abc import Mapping
from typing import Any, Final

from pyoco_client.errors import (
    AccessDeniedError,
    ApiKeyInvalidError,
    ApiKeyMissingError,
    BrokerUnavailableError,
    ConflictError,
    DeadLetterNotFoundError,
    IdempotencyConflictError,
    InvalidRequestError,
    ListNotReadyError,
    ListQueryError,
    NotFoundError,
    NotRedrivableError,
    NotSupportedError,
    PyocoApiError,
    RequestTooLargeError,
    RunNotFoundError,
    RunNotOverError,
    ScopeMissingError,
    ServerFaultError,
    SubmissionUnconfirmedError,
    TooManyRequestsError,
    UnavailableError,
    WorkerNotFoundError,
    fields_of,
    language_of,
)
from pyoco_client.execution_errors import (
    ApprovalsNeedKeysError,
    CommandRejectedError,
    CommitNotFoundError,
    ExecutionBusyError,
    ExecutionNotFoundError,
    GraphCorruptError,
    GraphInvalidError,
    GraphNotFoundError,
    InputInvalidError,
    LogCorruptError,
    LogTooNewError,
    NodeNotFoundError,
    OutcomeUnknownError,
    SeqNotReachedError,
    SeqOutOfRangeError,
    VersionMismatchError,
)

_BY_ERR_ID: Final[Mapping[str, type[PyocoApiError]]] = {
    "ERR-PYOCO-0002": InvalidRequestError,
    "ERR-PYOCO-0003": BrokerUnavailableError,
    "ERR-PYOCO-0005": RunNotFoundError,
    "ERR-PYOCO-0014": ApiKeyMissingError,
    "ERR-PYOCO-0015": ApiKeyInvalidError,
    "ERR-PYOCO-0016": RequestTooLargeError,
    "ERR-PYOCO-0017": ListQueryError,
    "ERR-PYOCO-0019": InvalidRequestError,
    "ERR-PYOCO-0020": WorkerNotFoundError,
    "ERR-PYOCO-0101": RequestTooLargeError,
    "ERR-PYOCO-0102": IdempotencyConflictError,
    "ERR-PYOCO-0103": InvalidRequestError,
    "ERR-PYOCO-0104": TooManyRequestsError,
    "ERR-PYOCO-0105": DeadLetterNotFoundError,
    "ERR-PYOCO-0106": ServerFaultError,
    "ERR-PYOCO-0107": SubmissionUnconfirmedError,
    "ERR-PYOCO-0110": NotSupportedError,
    "ERR-PYOCO-0111": NotSupportedError,
    "ERR-PYOCO-0118": RunNotOverError,
    "ERR-PYOCO-0120": NotRedrivableError,
    "ERR-PYOCO-0123": ListNotReadyError,
    "ERR-PYOCO-0125": ConflictError,
    "ERR-PYOCO-0130": ScopeMissingError,
    "ERR-PYOCO-0135": AccessDeniedError,
    "ERR-PYOCO-0136": AccessDeniedError,
    "ERR-PYOCO-0137": UnavailableError,
    "ERR-PYOCO-0138": UnavailableError,
    "ERR-PYOCO-0139": RequestTooLargeError,
    "ERR-PYOCO-0140": BrokerUnavailableError,
    "ERR-PYOCO-0142": BrokerUnavailableError,
    "ERR-PYOCO-0143": BrokerUnavailableError,
    "ERR-PYOCO-0144": InvalidRequestError,
    "ERR-PYOCO-0145": InvalidRequestError,
    "ERR-PYOCO-0146": ExecutionNotFoundError,
    "ERR-PYOCO-0147": NodeNotFoundError,
    "ERR-PYOCO-0148": GraphNotFoundError,
    "ERR-PYOCO-0149": CommitNotFoundError,
    "ERR-PYOCO-0150": CommandRejectedError,
    "ERR-PYOCO-0151": VersionMismatchError,
    "ERR-PYOCO-0152": InvalidRequestError,
    "ERR-PYOCO-0153": InputInvalidError,
    "ERR-PYOCO-0154": GraphInvalidError,
    "ERR-PYOCO-0155": ApprovalsNeedKeysError,
    "ERR-PYOCO-0156": SeqOutOfRangeError,
    "ERR-PYOCO-0157": LogCorruptError,
    "ERR-PYOCO-0158": GraphCorruptError,
    "ERR-PYOCO-0159": OutcomeUnknownError,
    "ERR-PYOCO-0160": ExecutionBusyError,
    "ERR-PYOCO-0161": LogTooNewError,
    "ERR-PYOCO-0162": ListNotReadyError,
    "ERR-PYOCO-0163": SeqNotReachedError,
    "ERR-PYOCO-0164": BrokerUnavailableError,
}

# For an error id that is newer than this client, and for answers without an id.
_BY_STATUS: Final[Mapping[int, type[PyocoApiError]]] = {
    400: InvalidRequestError,
    401: AccessDeniedError,
    403: AccessDeniedError,
    404: NotFoundError,
    408: UnavailableError,
    409: ConflictError,
    412: ConflictError,
    413: RequestTooLargeError,
    415: InvalidRequestError,
    421: AccessDeniedError,
    422: InvalidRequestError,
    429: TooManyRequestsError,
    431: RequestTooLargeError,
    500: ServerFaultError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}


def api_error(
    status: int, body: Mapping[str, Any], retry_after_sec: float | None = None
) -> PyocoApiError:
    """Return the error for an error body: by its error id, or by the status for an unknown id."""
    err_id = str(fields_of(body).get("err_id"))
    kind = _BY_ERR_ID.get(err_id) or _BY_STATUS.get(status, PyocoApiError)
    return kind(status, body, retry_after_sec=retry_after_sec)


def not_found_here(err_id: str, detail: str, lang: str | None = None) -> PyocoApiError:
    """Return the 404 error of a gateway for something that this client found missing."""
    from pyoco_protocol.problems import CATALOGUE

    entry, language = CATALOGUE[err_id], language_of(lang)
    body = {
        "detail": detail,
        "err_id": entry.err_id,
        "msg_id": entry.msg_id,
        "message": entry.message[language],
        "hint": entry.hint[language],
    }
    return api_error(404, body)
