"""All API keys in memory, updated by a watch on their bucket."""

import logging
import time
from collections.abc import Callable
from typing import Final, Self

import anyio
from pydantic import ValidationError

from pyoco_gateway.access.earlier_keys import EarlierKeyRecord
from pyoco_gateway.access.keys import ApiKeyRecord, Pepper
from pyoco_protocol.jetstream.bucket_watch import BucketWatch, Entry
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.subjects import Names, key_id_of_earlier_api_key
from pyoco_protocol.topology import LIMIT_MARKER_SEC

_log = logging.getLogger(__name__)

# A revocation takes effect within this time: after a longer silence the watch may have missed
# one. The broker sends heartbeats four times as often.
_MAX_SILENCE_SEC: Final = 2.0
# Delete markers expire. After a longer silence than this a marker may have been missed.
_MAX_RESUME_SEC: Final = LIMIT_MARKER_SEC / 2

OnKeyChanged = Callable[[str], None]


class KeyCache:
    """Watches the bucket of keys while `run` runs; `is_ready` says whether it is up to date."""

    def __init__(
        self,
        broker: Broker,
        bucket: str,
        *,
        pepper: Pepper | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watch = BucketWatch(broker, bucket, self)
        self._pepper = pepper
        self._clock = clock
        self._records: dict[str, ApiKeyRecord] = {}
        # The records before a reset, until the watch has caught up.
        self._before: dict[str, ApiKeyRecord] | None = None
        self._revisions: dict[str, int] = {}
        self._callbacks: list[OnKeyChanged] = []
        self._caught_up = False
        self._starts_over = False
        self._caught_up_at = float("-inf")
        self._caught_up_event = anyio.Event()
        self._earlier: dict[str, EarlierKeyRecord] = {}
        # Bucket keys whose values are not valid records.
        self.unreadable: set[str] = set()

    @classmethod
    def of(cls, broker: Broker, names: Names, pepper: Pepper) -> Self:
        """Return a cache that logs a warning for keys that cannot be checked with this pepper."""
        return cls(broker, names.auth_bucket, pepper=pepper)

    async def run(self) -> None:
        """Watch the bucket until cancelled."""
        await self._watch.run()

    @property
    def is_ready(self) -> bool:
        """Whether all keys are known and no revocation can have been missed.

        Otherwise it is unknown whether a key is valid.
        """
        return self._caught_up and self._silent_sec < _MAX_SILENCE_SEC

    @property
    def _silent_sec(self) -> float:
        return self._clock() - max(self._watch.heard_at, self._caught_up_at)

    async def until_ready(self, timeout_sec: float) -> None:
        """Wait until all keys are known; raise BrokerUnavailableError after `timeout_sec`."""
        with anyio.move_on_after(timeout_sec):
            while not self.is_ready:
                await self._caught_up_event.wait()
        if not self.is_ready:
            raise BrokerUnavailableError("the API keys are not read yet")

    def find(self, key_id: str) -> ApiKeyRecord | None:
        """Return the record of a key, which may be revoked or expired; None if there is none."""
        return self._records.get(key_id)

    def records(self) -> list[ApiKeyRecord]:
        """Return the records of all keys, in no particular order."""
        return list(self._records.values())

    def earlier_records(self) -> list[EarlierKeyRecord]:
        """Return the records of keys that an earlier server has issued; none of them is valid."""
        return list(self._earlier.values())

    def subscribe(self, callback: OnKeyChanged) -> None:
        """Call `callback` with the key id when a key has changed or was deleted."""
        self._callbacks.append(callback)

    # --- callbacks of the watch

    def on_entry(self, entry: Entry) -> None:
        """Store the record; a key with an invalid record counts as deleted."""
        if entry.revision <= self._revisions.get(entry.key, 0):
            return
        self._revisions[entry.key] = entry.revision
        if (earlier_id := key_id_of_earlier_api_key(entry.key)) is not None:
            self._note_earlier(entry, earlier_id)
            return
        record = self._read(entry)
        if record is None:
            self._records.pop(entry.key, None)
        else:
            self._records[entry.key] = record
        if self._before is None:
            self._notify(entry.key)

    def on_reset(self) -> None:
        """Drop all records: the watch starts from the beginning, or the bucket was recreated."""
        self._caught_up = False
        self._starts_over = False
        # A second reset may come before the watch has caught up after the first.
        if self._before is None:
            self._before = self._records
        self._records = {}
        self._revisions.clear()
        self._earlier.clear()
        self.unreadable.clear()

    def on_resumed(self) -> None:
        """Become not ready until the watch has caught up.

        Start over if delete markers may have expired.
        """
        self._caught_up = False
        if self._before is None and self._silent_sec > _MAX_RESUME_SEC:
            self._starts_over = True
            self._watch.start_over()

    def on_caught_up(self) -> None:
        """Become ready; notify of the keys that changed during a reset."""
        if self._starts_over:
            return
        self._caught_up = True
        self._caught_up_at = self._clock()
        self._caught_up_event.set()
        self._caught_up_event = anyio.Event()
        before, self._before = self._before, None
        if before is not None:
            for key_id in before.keys() | self._records.keys():
                if before.get(key_id) != self._records.get(key_id):
                    self._notify(key_id)

    def _notify(self, key_id: str) -> None:
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
        # A copy of a record under another key id must not grant access.
        if record is None or record.key_id != entry.key:
            self._note_unreadable(entry)
            return None
        if self._pepper is not None and not self._pepper.fits(record):
            _log.warning(
                "key was issued with a PYOCO_AUTH_PEPPER, which is not set; it is refused"
                if self._pepper.id is None
                else "key was issued with another PYOCO_AUTH_PEPPER; it is refused",
                extra={**_fields(entry), "pepper_id": record.pepper_id, "ours": self._pepper.id},
            )
        return record

    def _note_earlier(self, entry: Entry, key_id: str) -> None:
        self.unreadable.discard(entry.key)
        self._earlier.pop(entry.key, None)
        if entry.value is None:
            return
        try:
            record = EarlierKeyRecord.model_validate_json(entry.value)
        except ValidationError:
            record = None
        if record is None or record.key_id != key_id:
            self._note_unreadable(entry)
            return
        self._earlier[entry.key] = record
        if self._pepper is not None and record.revoked_at is None:
            _log.warning(
                "key was issued by an earlier server; it is refused",
                extra={**_fields(entry), "key_id": key_id},
            )

    def _note_unreadable(self, entry: Entry) -> None:
        self.unreadable.add(entry.key)
        _log.warning("invalid key record; the key is refused", extra=_fields(entry))


def _fields(entry: Entry) -> dict[str, object]:
    return {"key_id": entry.key, "revision": entry.revision}
