"""All keys there are, as their bucket tells of them; nothing is read when a request comes."""

import logging
import time
from collections.abc import Callable
from typing import Final, Self

import anyio
from pydantic import ValidationError

from pyoco_gateway.access.keys import ApiKeyRecord, Pepper
from pyoco_protocol.jetstream.bucket_watch import BucketWatch, Entry
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import LIMIT_MARKER_SEC

_log = logging.getLogger(__name__)

# A revocation works after this time at the latest: who has heard nothing for so long may have
# missed one. The broker speaks four times as often, also where nothing changes.
_SILENCE_SEC: Final = 2.0
# The mark of a deleted key is gone after a while, and who was away for longer never hears of it.
_AWAY_SEC: Final = LIMIT_MARKER_SEC / 2

OnKeyChanged = Callable[[str], None]


class KeyCache:
    """Follows the bucket of keys while `run` does; `is_ready` says whether it can be relied on."""

    def __init__(
        self,
        broker: Broker,
        bucket: str,
        *,
        pepper_id: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watch = BucketWatch(broker, bucket, self)
        self._pepper_id = pepper_id
        self._clock = clock
        self._records: dict[str, ApiKeyRecord] = {}
        # What stood in the bucket before it is told from its beginning.
        self._before: dict[str, ApiKeyRecord] | None = None
        self._revisions: dict[str, int] = {}
        self._callbacks: list[OnKeyChanged] = []
        self._caught_up = False
        self._starts_over = False
        self._told_at = float("-inf")
        self._told = anyio.Event()
        # The keys of the bucket whose values are no keys.
        self.unreadable: set[str] = set()

    @classmethod
    def of(cls, broker: Broker, names: Names, pepper: Pepper) -> Self:
        """Return the ring of a deployment; it tells where a key was made with another pepper."""
        return cls(broker, names.auth_bucket, pepper_id=pepper.id)

    async def run(self) -> None:
        """Follow the bucket until cancelled."""
        await self._watch.run()

    @property
    def is_ready(self) -> bool:
        """Whether all keys are known and a revocation would have been heard of.

        Where it is not, nobody can say whether a key is valid: not that it is, nor that it is not.
        """
        return self._caught_up and self._silent_sec < _SILENCE_SEC

    @property
    def _silent_sec(self) -> float:
        return self._clock() - max(self._watch.heard_at, self._told_at)

    async def until_ready(self, timeout_sec: float) -> None:
        """Return when all keys are known; raise BrokerUnavailableError if that takes too long."""
        with anyio.move_on_after(timeout_sec):
            while not self.is_ready:
                await self._told.wait()
        if not self.is_ready:
            raise BrokerUnavailableError("the API keys are not read yet")

    def find(self, key_id: str) -> ApiKeyRecord | None:
        """Return what is known of a key, which may be revoked or over; None where there is none."""
        return self._records.get(key_id)

    def records(self) -> list[ApiKeyRecord]:
        """Return all keys, in no order."""
        return list(self._records.values())

    def subscribe(self, callback: OnKeyChanged) -> None:
        """Have `callback` called with its id whenever a key has changed or gone."""
        self._callbacks.append(callback)

    # --- what the watch tells

    def on_entry(self, entry: Entry) -> None:
        """Take note of a key; of one that cannot be read nobody learns that it was ever there."""
        if entry.revision <= self._revisions.get(entry.key, 0):
            return
        self._revisions[entry.key] = entry.revision
        record = self._read(entry)
        if record is None:
            self._records.pop(entry.key, None)
        else:
            self._records[entry.key] = record
        if self._before is None:
            self._tell(entry.key)

    def on_reset(self) -> None:
        """Forget all keys: the bucket is told from its beginning, or is another one."""
        self._caught_up = False
        self._starts_over = False
        # A second reset may come before the first was caught up with.
        if self._before is None:
            self._before = self._records
        self._records = {}
        self._revisions.clear()
        self.unreadable.clear()

    def on_resumed(self) -> None:
        """Rely on nothing until what went untold is told."""
        self._caught_up = False
        if self._before is None and self._silent_sec > _AWAY_SEC:
            self._starts_over = True
            self._watch.start_over()

    def on_caught_up(self) -> None:
        """From here on all there is to know is known."""
        if self._starts_over:
            return
        self._caught_up = True
        self._told_at = self._clock()
        self._told.set()
        self._told = anyio.Event()
        before, self._before = self._before, None
        if before is not None:
            for key_id in before.keys() | self._records.keys():
                if before.get(key_id) != self._records.get(key_id):
                    self._tell(key_id)

    def _tell(self, key_id: str) -> None:
        for callback in self._callbacks:
            callback(key_id)

    def _read(self, entry: Entry) -> ApiKeyRecord | None:
        self.unreadable.discard(entry.key)
        if entry.value is None:
            return None
        try:
            record = ApiKeyRecord.model_validate_json(entry.value)
        except ValidationError:
            record = None
        # A record under the id of another key would open what that one opens.
        if record is None or record.key_id != entry.key:
            self.unreadable.add(entry.key)
            _log.warning("key record cannot be read; the key is refused", extra=_fields(entry))
            return None
        if self._pepper_id is not None and record.pepper_id != self._pepper_id:
            _log.warning(
                "key was issued with another PYOCO_AUTH_PEPPER; it is refused",
                extra={**_fields(entry), "pepper_id": record.pepper_id, "ours": self._pepper_id},
            )
        return record


def _fields(entry: Entry) -> dict[str, object]:
    return {"key_id": entry.key, "revision": entry.revision}
