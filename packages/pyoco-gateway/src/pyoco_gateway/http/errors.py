"""Answers failures with their ids, a text in the caller's language, and their status."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_gateway.http.client_address import client_address_of
from pyoco_gateway.http.execution_paths import is_execution_path
from pyoco_gateway.http.rate_limiter import RateLimiter
from pyoco_gateway.http.request_ids import request_id_of
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import (
    BodyTooLargeError,
    BrokerUnavailableError,
    ExecutionProblem,
    InternalError,
    InvalidRequestError,
    Language,
    MethodNotAllowedError,
    Problem,
    PyocoError,
    RouteNotFoundError,
    SeqNotReachedError,
    WorkflowTooLargeError,
    language_from_accept,
)

_log = logging.getLogger(__name__)

_MAX_FAULTS: Final = 10
_UNLOGGED_KEY: Final = "pyoco.refusals_unlogged"
_REFUSAL_LOG_KEY: Final = "pyoco.refusal_log"
# Rate per address of log lines about refused requests of callers that may use the gateway.
_REFUSALS_PER_SEC: Final = 5.0
_REFUSALS_BURST: Final = 300
# The Retry-After header of a 503 on the paths of executions and graphs, if the error has none.
_RETRY_AFTER: Final = "1"


class Answer(NamedTuple):
    """The response to a failed request."""

    status: HTTPStatus
    body: bytes
    # Headers that the error itself requires.
    headers: Mapping[str, str]


def add_error_handlers(app: FastAPI) -> None:
    """Make `app` answer every failure with a problem body."""
    app.add_exception_handler(PyocoError, _on_failure)
    app.add_exception_handler(RefusedError, _on_failure)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_anything)


def invalid_request(faults: Iterable[Mapping[str, Any]], *, root: str) -> InvalidRequestError:
    """Return the faults that pydantic found, without the values of the request.

    `root` names the whole body or query, for faults that have no location.
    """
    listed = [(_place(fault["loc"], root), _message(fault)) for fault in faults]
    shown = listed[:_MAX_FAULTS]
    if len(listed) > _MAX_FAULTS:
        shown.append((root, f"{len(listed) - _MAX_FAULTS} more faults"))
    return InvalidRequestError(shown)


def _message(fault: Mapping[str, Any]) -> str:
    """Return what is wrong, in the words of JSON instead of Python."""
    match fault["type"]:
        case "tuple_type" | "list_type":
            return "must be an array"
        case "dict_type" | "model_type" | "model_attributes_type":
            return "must be an object"
        case _:
            return str(fault["msg"]).replace("Tuple should", "Array should")


def answer_to(
    error: PyocoError, path: str, *, language: Language = "en", request_id: str | None = None
) -> Answer:
    """Return the answer to a request for `path` that failed with `error`.

    Errors on the paths of executions and graphs have a body of their own.
    """
    headers = {}
    if (retry_after := error.extra.get("retry_after_sec")) is not None:
        headers["Retry-After"] = str(retry_after)
    if not is_execution_path(path):
        problem = Problem.of(error, language=language, request_id=request_id)
        return Answer(error.status, problem.model_dump_json().encode(), headers)
    status = error.execution_status or error.status
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers.setdefault("Retry-After", _RETRY_AFTER)
    body = ExecutionProblem.of(error, language=language, request_id=request_id)
    return Answer(status, body.to_json(), headers)


def named(error: PyocoError | RefusedError) -> PyocoError:
    """Return the failure as a PyocoError: a refusal of the broker means that it is unavailable."""
    if isinstance(error, PyocoError):
        return error
    unavailable = BrokerUnavailableError(str(error))
    unavailable.__cause__ = error
    return unavailable


async def answer_problem(
    error: PyocoError,
    scope: Scope,
    receive: Receive,
    send: Send,
    headers: Mapping[str, str] | None = None,
    *,
    is_logged: bool = True,
) -> None:
    """Answer a request with `error`, from a middleware."""
    response = _problem_response(error, scope, headers, is_logged=is_logged)
    await response(scope, receive, send)


def leave_refusals_unlogged(scope: Scope) -> None:
    """Do not log answers with a 4xx status to this request."""
    scope[_UNLOGGED_KEY] = True


class CrashHandler:
    """Answers and logs exceptions that nothing else caught; none reaches the HTTP server."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._refusal_log = RateLimiter(_REFUSALS_PER_SEC, _REFUSALS_BURST)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; answer it if that raises."""
        started = False
        scope[_REFUSAL_LOG_KEY] = self._refusal_log

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched_send)
        except asyncio.CancelledError:
            # The process stops, and the client still reads. `TimeLimit` answers the requests that
            # it cancels itself, unless the response has started.
            if not started:
                error = BrokerUnavailableError("the gateway is shutting down")
                await answer_problem(error, scope, receive, send)
        except ClientDisconnect:
            _log.info("client disconnected", extra=_request_fields(scope))
        except Exception as error:  # noqa: BLE001 - the top of a request
            _log.exception("request crashed", extra=_request_fields(scope))
            if not started:
                await _response_to_crash(error, scope)(scope, receive, send)


async def _on_failure(request: Request, error: Exception) -> Response:
    assert isinstance(error, PyocoError | RefusedError)  # noqa: S101 - registered for these types
    return _problem_response(named(error), request.scope)


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for these types
    return _problem_response(invalid_request(error.errors(), root="request"), request.scope)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for these types
    path = shortened(request.scope["path"])
    named: PyocoError
    if error.status_code == HTTPStatus.NOT_FOUND:
        named = RouteNotFoundError(path)
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        named = MethodNotAllowedError(request.method, path)
    else:
        named = InvalidRequestError([("request", error.detail)])
    return _problem_response(named, request.scope, error.headers)


async def _on_anything(request: Request, error: Exception) -> Response:
    # The framework raises the error again after this call, and `CrashHandler` logs it.
    return _response_to_crash(error, request.scope)


def _response_to_crash(error: Exception, scope: Scope) -> Response:
    internal = InternalError(request_id_of(scope) or "unknown")
    internal.__cause__ = error
    return _as_response(internal, scope, None)


def _problem_response(
    error: PyocoError,
    scope: Scope,
    headers: Mapping[str, str] | None = None,
    *,
    is_logged: bool = True,
) -> Response:
    if is_logged:
        _log_problem(error, scope)
    if isinstance(error, BodyTooLargeError | WorkflowTooLargeError):
        # The unread rest of the body must not be parsed as the next request.
        headers = {**(headers or {}), "Connection": "close"}
    return _as_response(error, scope, headers)


def _log_problem(error: PyocoError, scope: Scope) -> None:
    # A wait for an event that ends without it is no failure.
    is_failure = error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if is_failure and not isinstance(error, SeqNotReachedError):
        _log.warning("request failed", extra=_request_fields(scope), exc_info=error)
    elif _UNLOGGED_KEY not in scope and not _is_flooding(scope):
        _log.info("request refused", extra={**error_fields(error), **_request_fields(scope)})


def _is_flooding(scope: Scope) -> bool:
    """Whether the caller has caused so many log lines that this refusal is not logged."""
    limiter: RateLimiter | None = scope.get(_REFUSAL_LOG_KEY)
    return limiter is not None and limiter.wait_for(client_address_of(scope)) > 0


def _as_response(error: PyocoError, scope: Scope, headers: Mapping[str, str] | None) -> Response:
    answer = answer_to(
        error,
        scope["path"],
        language=language_in(scope["headers"]),
        request_id=request_id_of(scope),
    )
    return Response(
        answer.body,
        answer.status,
        headers={**(headers or {}), **answer.headers},
        media_type="application/json",
    )


def language_in(headers: Iterable[tuple[bytes, bytes]]) -> Language:
    """Return the language that the headers of a request ask for."""
    for name, value in headers:
        if name == b"accept-language":
            return language_from_accept(value.decode("latin-1"))
    return language_from_accept(None)


def _request_fields(scope: Scope) -> dict[str, str | None]:
    return {
        "request_id": request_id_of(scope),
        "method": scope["method"],
        # Without the query, which may hold secrets.
        "path": shortened(scope["path"]),
    }


def _place(location: Iterable[object], root: str) -> str:
    return shortened(".".join(str(step) for step in location)) or root
