"""Stands before all routes: who is it, may they do this, and do they come too often."""

import logging
import math
from collections.abc import Mapping
from typing import Any, Final

import anyio
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_gateway.access.caller import ANONYMOUS, UNRESTRICTED, Caller, KeyScope, set_caller
from pyoco_gateway.access.key_check import KeyCheck
from pyoco_gateway.access.key_header import key_in
from pyoco_gateway.access.keys import PresentedKey
from pyoco_gateway.access.refusal_counter import Refusal, RefusalCounter
from pyoco_gateway.access.route_access import NoScope, RouteAccess
from pyoco_gateway.http.client_address import client_address_of
from pyoco_gateway.http.errors import answer_problem
from pyoco_gateway.http.rate_limiter import (
    UNAUTHENTICATED_BURST,
    UNAUTHENTICATED_DELAY_SEC,
    UNAUTHENTICATED_PER_SEC,
    RateLimiter,
)
from pyoco_protocol.problems import (
    ApiKeyInvalidError,
    ApiKeyMissingError,
    BrokerUnavailableError,
    PyocoError,
    ScopeMissingError,
    TooManyRequestsError,
)
from pyoco_protocol.settings import HttpAuthSettings, RateSettings

_log = logging.getLogger(__name__)

# Where the gate finds what recognises keys.
STATE_KEY: Final = "key_check"
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="pyoco"'}
_MINUTE: Final = 60.0
# One address may be many callers, each with a key id of its own.
_FAILURES_PER_PEER: Final = 5
# What happens thousands of times a second is told this often, for each caller.
_TELL_SEC: Final = 60.0
# Each refusal is a line of the log, and who need not show a key could write it full.
_LINES_PER_SEC: Final = 1.0
_LINES_AT_ONCE: Final = 60


# The others are told once in a while, by the gate.
_LOGGED: Final = frozenset({Refusal.KEY_MISSING, Refusal.KEY_INVALID, Refusal.SCOPE_MISSING})


class _RefusedError(Exception):
    """The request goes no further."""

    def __init__(
        self, reason: Refusal, error: PyocoError, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error
        self.headers = headers


class AccessMiddleware:
    """Notes on each request who sent it, and answers those that may not pass.

    All that is done here takes microseconds and reads nothing but headers: neither a body that
    is still to come nor the broker, which is looked at before (`KeyCache`).
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        auth: HttpAuthSettings,
        rates: RateSettings,
        access: RouteAccess,
        refusals: RefusalCounter,
    ) -> None:
        self._app = app
        self._asks_for_keys = auth.http_auth_mode == "api_key"
        self._header = auth.http_api_key_header
        self._header_bytes = auth.http_api_key_header.lower().encode()
        self._access = access
        self._refusals = refusals
        self._per_peer = _rates(rates.rate_per_peer, rates.rate_per_peer_burst)
        self._per_key = _rates(rates.rate_per_key, rates.rate_per_key_burst)
        failures = rates.auth_failures_per_min
        self._failures = _rates(failures / _MINUTE, math.ceil(failures))
        self._failures_of_peer = _rates(
            _FAILURES_PER_PEER * failures / _MINUTE, math.ceil(_FAILURES_PER_PEER * failures)
        )
        self._tellings = RateLimiter(1 / _TELL_SEC, 1)
        self._strangers = RateLimiter(UNAUTHENTICATED_PER_SEC, UNAUTHENTICATED_BURST)
        self._lines = RateLimiter(_LINES_PER_SEC, _LINES_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on if it may pass."""
        if scope["type"] != "http":
            # There is nothing but HTTP here; what else could come would pass unseen.
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        try:
            caller = self._let_in(scope)
        except _RefusedError as refused:
            self._refusals.note(refused.reason)
            if refused.reason is Refusal.BACK_OFF or (
                refused.reason is Refusal.KEY_MISSING
                and self._strangers.wait_for(client_address_of(scope))
            ):
                await anyio.sleep(UNAUTHENTICATED_DELAY_SEC)
            is_logged = refused.reason in _LOGGED and not self._lines.wait_for(
                client_address_of(scope)
            )
            await answer_problem(
                refused.error, scope, receive, send, refused.headers, is_logged=is_logged
            )
            return
        set_caller(scope, caller)
        if caller is ANONYMOUS and self._strangers.wait_for(client_address_of(scope)):
            await anyio.sleep(UNAUTHENTICATED_DELAY_SEC)
        await self._app(scope, receive, send)

    def _let_in(self, scope: Scope) -> Caller:
        if self._per_peer is not None:
            peer = client_address_of(scope)
            if wait := self._per_peer.wait_for(peer):
                raise self._too_many(Refusal.PEER_RATE, wait, peer=peer)
        if not self._asks_for_keys:
            return UNRESTRICTED
        need = self._access.need(scope["method"], scope["path"])
        if need is NoScope.OPEN:
            return self._at_open_door(scope)
        caller = self._recognised(scope)
        if self._per_key is not None and (wait := self._per_key.wait_for(caller.key_id)):
            raise self._too_many(Refusal.KEY_RATE, wait, key_id=caller.key_id)
        if isinstance(need, KeyScope) and not caller.may(need):
            raise _RefusedError(Refusal.SCOPE_MISSING, ScopeMissingError(need))
        return caller

    def _at_open_door(self, scope: Scope) -> Caller:
        """Return who it is, if that can be told: whoever watches our health gets an answer."""
        if key_in(scope["headers"], self._header_bytes) is None:
            return ANONYMOUS
        try:
            return self._recognised(scope)
        except _RefusedError:
            return ANONYMOUS

    def _recognised(self, scope: Scope) -> Caller:
        text = key_in(scope["headers"], self._header_bytes)
        if text is None:
            error = ApiKeyMissingError(self._header)
            raise _RefusedError(Refusal.KEY_MISSING, error, _CHALLENGE)
        presented = PresentedKey.parse(text)
        if presented is None:
            raise self._wrong_key(scope, None)
        check: KeyCheck = scope["state"][STATE_KEY]
        try:
            return check(presented)
        except ApiKeyInvalidError:
            raise self._wrong_key(scope, presented.key_id) from None
        except BrokerUnavailableError as error:
            if not self._tellings.wait_for(Refusal.KEYS_UNKNOWN):
                _log.warning("callers are turned away: the API keys cannot be read")
            raise _RefusedError(Refusal.KEYS_UNKNOWN, error) from None

    def _wrong_key(self, scope: Scope, key_id: str | None) -> _RefusedError:
        """Return the answer to a wrong key: that it is wrong, or that there were too many.

        Only those who fail are held off. A key that is good is let in before anybody asks how many
        were wrong: else whoever shares an address with others, and knows the id of their key,
        could lock them out. Guessing gains nothing by it, there being 2^256 secrets.
        """
        peer = client_address_of(scope)
        if self._failures is not None and self._failures_of_peer is not None:
            wait = self._failures.wait_for((peer, key_id)) or self._failures_of_peer.wait_for(peer)
            if wait:
                return self._too_many(Refusal.BACK_OFF, wait, peer=peer)
        return _RefusedError(Refusal.KEY_INVALID, ApiKeyInvalidError())

    def _too_many(self, reason: Refusal, wait: float, **who: Any) -> _RefusedError:
        if not self._tellings.wait_for((reason, *who.values())):
            _log.warning("caller is held off", extra={"reason": reason.value, **who})
        return _RefusedError(reason, TooManyRequestsError(math.ceil(wait)))


def _rates(per_sec: float, burst: int) -> RateLimiter | None:
    return RateLimiter(per_sec, burst) if per_sec > 0 else None
