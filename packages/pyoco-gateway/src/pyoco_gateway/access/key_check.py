"""Authenticates the API key of a request against the key cache."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.access.key_cache import KeyCache
from pyoco_gateway.access.keys import ApiKeyRecord, Pepper, PresentedKey
from pyoco_protocol.problems import ApiKeyInvalidError, BrokerUnavailableError


def caller_with(record: ApiKeyRecord) -> Caller:
    """Return the caller that a key identifies."""
    return Caller(record.tenant_id, record.key_id, record.scopes, record.name)


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """Authenticates keys in microseconds, without reading from the broker.

    Invalid keys therefore cannot slow down other callers. An unknown key id takes as much work as
    a known one.
    """

    cache: KeyCache
    pepper: Pepper
    clock: Callable[[], float] = time.time

    def __call__(self, presented: PresentedKey) -> Caller:
        """Return the caller with this key; raise ApiKeyInvalidError if the key is not valid.

        The error does not say whether the key is wrong, expired or revoked. While the keys cannot
        be read, raise BrokerUnavailableError: the key may be valid.
        """
        if not self.cache.is_ready:
            raise BrokerUnavailableError("the API keys cannot be read now")
        record = self.cache.find(presented.key_id)
        is_same = self.pepper.matches(record, presented.secret)
        if record is None or not is_same or not record.is_valid_at(self.clock()):
            raise ApiKeyInvalidError
        return caller_with(record)
