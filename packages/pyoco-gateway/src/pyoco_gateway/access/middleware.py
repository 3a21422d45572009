"""Authenticates each request, checks its scope, and limits rates, before any route."""

import logging
import math
from collections.abc import Mapping
from typing import Any, Final

import anyio
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_gateway.access.caller import ANONYMOUS, UNRESTRICTED, Caller, KeyScope, set_caller
from pyoco_gateway.access.earlier_keys import is_earlier_key
from pyoco_gateway.access.key_header import key_in
from pyoco_gateway.access.keys import PresentedKey
from pyoco_gateway.access.refusal_counter import Refusal, RefusalCounter
from pyoco_gateway.access.services import AccessServices
from pyoco_gateway.http.client_address import client_address_of
from pyoco_gateway.http.errors import answer_problem, leave_refusals_unlogged
from pyoco_gateway.http.execution_paths import is_execution_path
from pyoco_gateway.http.provided import provided
from pyoco_gateway.http.rate_limiter import (
    UNAUTHENTICATED_BURST,
    UNAUTHENTICATED_DELAY_SEC,
    UNAUTHENTICATED_PER_SEC,
    RateLimiter,
    refusal_log_limiter,
)
from pyoco_gateway.http.route_table import Access, Requirement, match_of, scopes_in
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

_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="pyoco"'}
_MINUTE: Final = 60.0
# One address may be shared by several callers, each with its own key.
_FAILURES_PER_ADDRESS: Final = 5
# Minimum time between two warnings about a caller that exceeds its rate.
_WARN_SEC: Final = 60.0

# The middleware logs the other refusals itself, at most once per `_WARN_SEC` and caller.
_LOGGED: Final = frozenset({Refusal.KEY_MISSING, Refusal.KEY_INVALID, Refusal.SCOPE_MISSING})


class _RefusedError(Exception):
    """The request is refused; carries the answer."""

    def __init__(
        self, reason: Refusal, error: PyocoError, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error
        self.headers = headers


class AccessMiddleware:
    """Notes the caller of each request in its ASGI scope, and answers requests it refuses.

    It reads headers only: neither the body, which may not have arrived, nor the broker, from
    which `KeyCache` has read the keys before. So it takes microseconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        auth: HttpAuthSettings,
        rates: RateSettings,
        refusals: RefusalCounter,
    ) -> None:
        self._app = app
        self._needs_key = auth.http_auth_mode == "api_key"
        self._header = auth.http_api_key_header
        self._header_bytes = auth.http_api_key_header.lower().encode()
        self._refusals = refusals
        self._per_address = _rates(rates.rate_per_peer, rates.rate_per_peer_burst)
        self._per_key = _rates(rates.rate_per_key, rates.rate_per_key_burst)
        failures = rates.auth_failures_per_min
        self._failures = _rates(failures / _MINUTE, math.ceil(failures))
        self._failures_of_address = _rates(
            _FAILURES_PER_ADDRESS * failures / _MINUTE, math.ceil(_FAILURES_PER_ADDRESS * failures)
        )
        self._warnings = RateLimiter(1 / _WARN_SEC, 1)
        self._unauthenticated_rate = RateLimiter(UNAUTHENTICATED_PER_SEC, UNAUTHENTICATED_BURST)
        self._refusal_log = refusal_log_limiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        try:
            caller = self._admit(scope)
        except _RefusedError as refused:
            self._refusals.note(refused.reason)
            if refused.reason is Refusal.BACK_OFF or (
                refused.reason is Refusal.KEY_MISSING
                and self._unauthenticated_rate.wait_for(client_address_of(scope))
            ):
                await anyio.sleep(UNAUTHENTICATED_DELAY_SEC)
            is_logged = refused.reason in _LOGGED and not self._refusal_log.wait_for(
                client_address_of(scope)
            )
            await answer_problem(
                refused.error, scope, receive, send, refused.headers, is_logged=is_logged
            )
            return
        set_caller(scope, caller)
        if caller is ANONYMOUS:
            # Callers without a key on public routes must not be able to fill the log.
            leave_refusals_unlogged(scope)
            if self._unauthenticated_rate.wait_for(client_address_of(scope)):
                await anyio.sleep(UNAUTHENTICATED_DELAY_SEC)
        await self._app(scope, receive, send)

    def _admit(self, scope: Scope) -> Caller:
        if self._per_address is not None:
            address = client_address_of(scope)
            if wait := self._per_address.wait_for(address):
                raise self._too_many(Refusal.PEER_RATE, wait, peer=address)
        if not self._needs_key:
            return UNRESTRICTED
        requires = match_of(scope).requires
        if requires is Access.PUBLIC:
            return self._authenticated_or_anonymous(scope)
        caller = self._authenticated(scope)
        if self._per_key is not None and (wait := self._per_key.wait_for(caller.key_id)):
            raise self._too_many(Refusal.KEY_RATE, wait, key_id=caller.key_id)
        if requires is not Access.ANY_KEY:
            _require_scope(caller, requires)
        return caller

    def _authenticated_or_anonymous(self, scope: Scope) -> Caller:
        """Return the caller, ANONYMOUS without a valid key: health checks get an answer."""
        if key_in(scope["headers"], self._header_bytes) is None:
            return ANONYMOUS
        try:
            return self._authenticated(scope)
        except _RefusedError:
            return ANONYMOUS

    def _authenticated(self, scope: Scope) -> Caller:
        text = key_in(scope["headers"], self._header_bytes)
        if text is None:
            missing = ApiKeyMissingError(self._header)
            raise _RefusedError(Refusal.KEY_MISSING, missing, _CHALLENGE)
        presented = PresentedKey.parse(text)
        if presented is None:
            invalid = ApiKeyInvalidError(is_of_earlier_server=is_earlier_key(text))
            raise self._wrong_key(scope, None, invalid)
        check = provided(scope, AccessServices).key_check
        if check is None:
            raise RuntimeError("keys are required, but nothing checks them")
        try:
            return check(presented)
        except ApiKeyInvalidError as error:
            raise self._wrong_key(scope, presented.key_id, error) from None
        except BrokerUnavailableError as error:
            if not self._warnings.wait_for(Refusal.KEYS_UNKNOWN):
                _log.warning("requests are refused: the API keys cannot be read")
            raise _RefusedError(Refusal.KEYS_UNKNOWN, error) from None

    def _wrong_key(
        self, scope: Scope, key_id: str | None, error: ApiKeyInvalidError
    ) -> _RefusedError:
        """Return the refusal of a wrong key: 403 or 401, or 429 after too many of them.

        Failed attempts never delay a valid key. Otherwise a caller that knows another's key id and
        shares its address could lock it out. Guessing does not become feasible: there are 2^256
        secrets.
        """
        address = client_address_of(scope)
        if self._failures is not None and self._failures_of_address is not None:
            wait = self._failures.wait_for((address, key_id))
            wait = wait or self._failures_of_address.wait_for(address)
            if wait:
                return self._too_many(Refusal.BACK_OFF, wait, peer=address)
        # A 401 must have a challenge.
        is_401 = is_execution_path(scope["path"])
        return _RefusedError(Refusal.KEY_INVALID, error, _CHALLENGE if is_401 else None)

    def _too_many(self, reason: Refusal, wait: float, **caller: Any) -> _RefusedError:
        if not self._warnings.wait_for((reason, *caller.values())):
            _log.warning("caller exceeds its rate", extra={"reason": reason.value, **caller})
        return _RefusedError(reason, TooManyRequestsError(math.ceil(wait)))


def _require_scope(caller: Caller, requires: Requirement) -> None:
    scopes = scopes_in(requires)
    for scope in scopes:
        if isinstance(scope, KeyScope) and caller.may(scope):
            return
    raise _RefusedError(Refusal.SCOPE_MISSING, ScopeMissingError(*scopes))


def _rates(per_sec: float, burst: int) -> RateLimiter | None:
    return RateLimiter(per_sec, burst) if per_sec > 0 else None
