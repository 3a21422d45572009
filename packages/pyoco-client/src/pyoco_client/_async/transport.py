"""Sends requests, repeats them if that is safe, and reads the answers."""

import random
import socket
import ssl
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import httpx

from pyoco_client._async.sleep import sleep
from pyoco_client.addresses import shown_address
from pyoco_client.answers import RawAnswer
from pyoco_client.configuration import Settings
from pyoco_client.errors import (
    ENVIRONMENT_HINT,
    ConfigurationError,
    GatewayUnreachableError,
    PyocoError,
    UnexpectedAnswerError,
)
from pyoco_client.event_stream import EventDecoder, EventTooLargeError, ServerEvent
from pyoco_client.http_call import EVENT_STREAM_TYPE, Call
from pyoco_client.retry_rules import Backoff, Repeat, pause_before_repeat

# A gateway sends a heartbeat every 2 seconds, one of an earlier release every 5 seconds. A stream
# without an event for three heartbeats counts as broken.
STREAM_SILENCE_SEC: Final = 15.0

# What httpx raises for an unusable proxy or certificate file in the environment.
NO_CLIENT: Final = (httpx.InvalidURL, ImportError, OSError, ValueError)

_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class AsyncEvents:
    """The events of one open stream."""

    def __init__(self, response: httpx.Response, server: str) -> None:
        self._response = response
        self._server = server
        self._decoder = EventDecoder()

    @property
    def retry_ms(self) -> int | None:
        """The gateway's `retry` field: the delay before a reconnect; None if it sent none."""
        return self._decoder.retry_ms

    async def events(self) -> AsyncGenerator[ServerEvent]:
        """Yield events until the gateway ends the stream; raise PyocoError if it breaks."""
        try:
            async for piece in self._response.aiter_bytes():
                for event in self._decoder.feed(piece):
                    yield event
        except httpx.TransportError as error:
            raise unreachable(self._server, error) from error
        except (httpx.DecodingError, EventTooLargeError) as error:
            raise UnexpectedAnswerError(self._server, f"a stream with {error}") from error


class AsyncTransport:
    """A pool of connections to one gateway."""

    def __init__(
        self,
        settings: Settings,
        *,
        timeout: float,
        deadline: float,
        verify: ssl.SSLContext | bool,
        transport: httpx.AsyncBaseTransport | None,
        user_agent: str,
    ) -> None:
        # Without user name and password, for errors.
        self.server = shown_address(settings.server)
        self.lang = settings.lang
        self.timeout = timeout
        self.deadline = deadline
        self.backoff = Backoff()
        headers = {
            "Accept": "application/json",
            "User-Agent": user_agent,
            # An older gateway refuses what it does not know. It would ignore a filter otherwise.
            "Prefer": "handling=strict",
        }
        if settings.api_key is not None:
            headers[settings.api_key_header] = settings.api_key
        if settings.lang is not None:
            headers["Accept-Language"] = settings.lang
        try:
            self._http = httpx.AsyncClient(
                base_url=settings.server,
                headers=headers,
                timeout=timeout,
                verify=verify,
                transport=transport,
                # No limit: streams stay open, and other calls must not wait for a connection.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            )
        except NO_CLIENT as error:
            raise ConfigurationError(
                f"the environment allows no connection: {error}", hint=ENVIRONMENT_HINT
            ) from error

    async def aclose(self) -> None:
        """Close the connections; a second call does nothing."""
        await self._http.aclose()

    async def ask(self, call: Call, *, deadline: float | None = None) -> RawAnswer:
        """Return the successful answer to a request; raise a PyocoError otherwise.

        The request is repeated if that is safe, with pauses, for up to `deadline` seconds; 0 sends
        it once.
        """
        total = self.deadline if deadline is None else deadline
        end_at = time.monotonic() + max(total, call.min_timeout_sec)
        call = call.with_headers({"X-Request-ID": uuid.uuid4().hex, **call.headers})
        failures = 0
        while True:
            left = end_at - time.monotonic()
            try:
                return await self.send(call, timeout=min(self.timeout, left) if total else None)
            except PyocoError as error:
                failures += 1
                pause = pause_before_repeat(
                    error,
                    call.repeat,
                    failures=failures,
                    left_sec=end_at - time.monotonic() if total else 0.0,
                    jitter=random.random(),  # noqa: S311 - spreads load, is no secret
                    backoff=self.backoff,
                )
                if pause is None:
                    raise
            await sleep(pause)

    async def send(self, call: Call, *, timeout: float | None = None) -> RawAnswer:
        """Send a request once; return the successful answer or raise a PyocoError."""
        wanted = self.timeout if timeout is None else timeout
        # At least 50 ms, also if the caller's time is nearly used up.
        limit = max(wanted, call.min_timeout_sec, 0.05)
        end_at = time.monotonic() + limit
        try:
            async with self._http.stream(
                call.method,
                call.path,
                params=list(call.query) or None,
                content=call.content,
                headers=dict(call.headers),
                timeout=limit,
            ) as response:
                content = bytearray()
                async for piece in response.aiter_bytes():
                    content += piece
                    # httpx limits the time for each piece, this limits the whole body.
                    if time.monotonic() > end_at:
                        raise httpx.ReadTimeout("the answer takes too long")
        except httpx.TransportError as error:
            raise self._unreachable(error, call) from error
        except httpx.DecodingError as error:
            raise UnexpectedAnswerError(self.server, f"unreadable, {error}") from error
        answer = self._answer(response, bytes(content))
        if answer.is_success:
            return answer
        raise answer.as_error()

    @asynccontextmanager
    async def stream(
        self, call: Call, *, silence: float = STREAM_SILENCE_SEC
    ) -> AsyncGenerator[AsyncEvents | None]:
        """Open a stream; yield its events, or None if the gateway has no more events."""
        limits = httpx.Timeout(self.timeout, read=max(silence, 0.05))
        headers = {**call.headers, "Accept": EVENT_STREAM_TYPE, "Cache-Control": "no-store"}
        try:
            request = self._http.build_request(
                call.method, call.path, params=list(call.query), headers=headers, timeout=limits
            )
            response = await self._http.send(request, stream=True)
        except httpx.TransportError as error:
            raise self._unreachable(error, call) from error
        try:
            if response.status_code == httpx.codes.NO_CONTENT:
                yield None
                return
            kind = response.headers.get("content-type", "")
            if response.is_success and kind.startswith(EVENT_STREAM_TYPE):
                yield AsyncEvents(response, self.server)
                return
            try:
                content = await response.aread()
            except httpx.TransportError as error:
                raise self._unreachable(error, call) from error
            answer = self._answer(response, content)
            if answer.is_success:
                what = f"{kind or 'no content type'} instead of a stream"
                raise UnexpectedAnswerError(self.server, what, answer.status)
            raise answer.as_error()
        finally:
            await response.aclose()

    def _unreachable(self, error: httpx.TransportError, call: Call) -> GatewayUnreachableError:
        request_id = call.headers.get("X-Request-ID")
        return unreachable(
            self.server,
            error,
            is_repeatable=call.repeat is Repeat.ALWAYS,
            request_id=request_id,
            lang=self.lang,
        )

    def _answer(self, response: httpx.Response, content: bytes) -> RawAnswer:
        request = response.request
        return RawAnswer(
            self.server,
            response.status_code,
            response.headers,
            content,
            request.method,
            str(request.url),
        )


def unreachable(
    server: str,
    error: httpx.TransportError,
    *,
    is_repeatable: bool = True,
    request_id: str | None = None,
    lang: str | None = None,
) -> GatewayUnreachableError:
    """Return the error of this client for a network failure."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return GatewayUnreachableError(
        server,
        str(error) or type(error).__name__,
        may_have_arrived=not isinstance(error, _UNSENT),
        is_repeatable=is_repeatable,
        is_lasting=any(_is_lasting(each) for each in causes),
        request_id=request_id,
        lang=lang,
    )


def _is_lasting(cause: BaseException) -> bool:
    if isinstance(cause, socket.gaierror):
        # EAI_AGAIN is a name server that did not answer; it may answer later.
        return cause.errno != socket.EAI_AGAIN
    return isinstance(cause, ssl.SSLCertVerificationError)
