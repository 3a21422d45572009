"""Checks the key of a request again after the request has waited."""

from starlette.types import Scope

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.access.services import AccessServices
from pyoco_gateway.access.stream_permits import stream_permit_of
from pyoco_gateway.http.provided import provided
from pyoco_protocol.problems import ApiKeyInvalidError, BrokerUnavailableError


def require_valid_key(scope: Scope) -> None:
    """Raise ApiKeyInvalidError if the key was revoked or changed since the request arrived.

    While the keys cannot be read, raise BrokerUnavailableError.
    """
    permits = provided(scope, AccessServices).stream_permits
    with stream_permit_of(permits, caller_of(scope), lambda: None) as permit:
        if permit.has_ended:
            raise ApiKeyInvalidError
        if not permit.is_known:
            raise BrokerUnavailableError("the API keys cannot be read now")
