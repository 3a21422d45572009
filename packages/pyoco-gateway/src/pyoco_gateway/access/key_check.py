"""Whose key a request shows: what is known of all keys, and what it takes to recognise one."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.access.key_cache import KeyCache
from pyoco_gateway.access.keys import ApiKeyRecord, Pepper, PresentedKey
from pyoco_protocol.problems import ApiKeyInvalidError, BrokerUnavailableError


def caller_by(record: ApiKeyRecord) -> Caller:
    """Return who calls with this key."""
    return Caller(record.tenant_id, record.key_id, record.scopes)


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """Recognises keys. Nothing is read from the broker for it, and it takes microseconds.

    So nobody can slow others down with keys that are wrong, and as much is done for a key id that
    does not exist as for one that does.
    """

    ring: KeyCache
    pepper: Pepper
    clock: Callable[[], float] = time.time

    def __call__(self, presented: PresentedKey) -> Caller:
        """Return whose key it is; raise ApiKeyInvalidError where it opens nothing.

        Which of wrong, over and revoked it is, is nobody's business. While the keys cannot be
        read, raise BrokerUnavailableError: it may be good.
        """
        if not self.ring.is_ready:
            raise BrokerUnavailableError("the API keys cannot be read now")
        record = self.ring.find(presented.key_id)
        is_same = self.pepper.matches(record, presented.secret)
        if record is None or not is_same or not record.is_valid_at(self.clock()):
            raise ApiKeyInvalidError
        return caller_by(record)
