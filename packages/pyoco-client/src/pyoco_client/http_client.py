"""The HTTP API as one method per route."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from pyoco_client.errors import (
    GatewayUnreachableError,
    PyocoApiError,
    PyocoError,
    UnexpectedAnswerError,
    WaitTimeoutError,
    api_error,
)
from pyoco_protocol.run_lifecycle import TERMINAL

DEFAULT_SERVER: Final = "http://127.0.0.1:8000"
DEFAULT_API_KEY_HEADER: Final = "X-API-Key"
DEFAULT_TIMEOUT_SEC: Final = 10.0

# Short runs are seen to end at once; long ones cost two requests a second.
_FIRST_POLL_SEC: Final = 0.02
_LAST_POLL_SEC: Final = 0.5
_POLL_GROWTH: Final = 1.5

_GONE_FOR_A_MOMENT: Final = frozenset({502, 503, 504})


class PyocoHttpClient:
    """A connection pool to one gateway; safe to share between threads, closed by `with`.

    Every method returns the JSON object of the answer as it came, so fields of a newer gateway
    are there too, and raises a `pyoco_client.errors.PyocoError` for any other answer.
    """

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        api_key: str | None = None,
        api_key_header: str = DEFAULT_API_KEY_HEADER,
        timeout: float = DEFAULT_TIMEOUT_SEC,
    ) -> None:
        self.server = _checked_server(server)
        headers = {"Accept": "application/json"}
        if api_key is not None:
            headers[_checked_header(api_key_header)] = _checked_key(api_key)
        self._timeout = timeout
        self._http = httpx.Client(base_url=self.server, headers=headers, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; harmless when repeated."""
        self._http.close()

    def health(self) -> dict[str, Any]:
        """Return the answer of `GET /health`."""
        return self._ask("GET", "/health")

    def submit_run(
        self,
        flow_name: str,
        params: Mapping[str, Any] | None = None,
        tag: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Return `run_id` and `status` of a run that is stored and queued.

        Never repeated by itself: without an idempotency key a repeat would be a second run.
        Raises ValueError or TypeError for params that are not JSON.
        """
        body: dict[str, Any] = {"flow_name": flow_name, "params": dict(params or {})}
        if tag is not None:
            body["tag"] = tag
        if tags is not None:
            body["tags"] = list(tags)
        return self._ask("POST", "/runs", body=body)

    def get_run(self, run_id: str, include: str | Sequence[str] | None = None) -> dict[str, Any]:
        """Return the latest snapshot of a run; `include="records"` adds its task records."""
        return self._ask("GET", f"/runs/{_path_part(run_id)}", query=_include(include))

    def get_tasks(self, run_id: str) -> dict[str, Any]:
        """Return the task states and task records of a run."""
        return self._ask("GET", f"/runs/{_path_part(run_id)}/tasks")

    def wait(
        self,
        run_id: str,
        timeout: float | None = None,
        include: str | Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Return the terminal snapshot of a run; raise WaitTimeoutError after `timeout` seconds.

        A gateway or broker that is away for a while is waited for like the run itself.
        """
        path, query = f"/runs/{_path_part(run_id)}", _include(include)
        deadline = None if timeout is None else time.monotonic() + timeout
        left = self._timeout if timeout is None else timeout
        pause = _FIRST_POLL_SEC
        last_status: str | None = None
        while True:
            trouble: PyocoError | None = None
            try:
                run = self._ask("GET", path, query=query, timeout=max(left, _LAST_POLL_SEC))
            except (GatewayUnreachableError, PyocoApiError, UnexpectedAnswerError) as error:
                if error.status is not None and error.status not in _GONE_FOR_A_MOMENT:
                    raise
                trouble = error
            else:
                last_status = str(run.get("status"))
                if last_status in TERMINAL:
                    return run
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise WaitTimeoutError(run_id, timeout or 0.0, last_status) from trouble
                pause = min(pause, left)
            time.sleep(pause)
            pause = min(pause * _POLL_GROWTH, _LAST_POLL_SEC)

    def _ask(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
    ) -> dict[str, Any]:
        content = None
        headers = {}
        if body is not None:
            content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
            headers["Content-Type"] = "application/json"
        try:
            answer = self._http.request(
                method,
                path,
                content=content,
                headers=headers,
                params=list(query) or None,
                timeout=self._timeout if timeout is None else min(timeout, self._timeout),
            )
        except httpx.TransportError as error:
            raise GatewayUnreachableError(
                self.server,
                str(error) or type(error).__name__,
                may_have_arrived=not isinstance(
                    error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
                ),
            ) from error
        except httpx.DecodingError as error:
            raise UnexpectedAnswerError(self.server, f"unreadable, {error}") from error
        return self._object_in(answer)

    def _object_in(self, answer: httpx.Response) -> dict[str, Any]:
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            kind = answer.headers.get("Content-Type", "no content type")
            what = f"{answer.status_code} with {kind} instead of a JSON object"
            raise UnexpectedAnswerError(self.server, what, answer.status_code)
        if answer.is_success:
            return found
        raise api_error(answer.status_code, found)


def _checked_server(server: str) -> str:
    try:
        url = httpx.URL(server)
    except httpx.InvalidURL as error:
        raise ValueError(f"server {server!r} is not a URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"server must be a URL such as {DEFAULT_SERVER}, not {server!r}")
    return server.rstrip("/")


def _checked_header(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
        raise ValueError(f"api_key_header {name!r} cannot be the name of a header")
    return name


def _checked_key(key: str) -> str:
    # What is wrong with it is not shown: it is a secret.
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise ValueError("api_key must be printable ASCII without spaces")
    return key


def _path_part(run_id: str) -> str:
    # An empty or dotted part would quietly become another path.
    if not run_id.strip("."):
        raise ValueError(f"{run_id!r} is not a run id")
    return quote(run_id, safe="")


def _include(include: str | Sequence[str] | None) -> list[tuple[str, str]]:
    parts = [include] if isinstance(include, str) else include or ()
    return [("include", part) for part in parts]
