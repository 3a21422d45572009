"""Checkpoints of executions in a key-value bucket: a cache that may be emptied at any time.

A checkpoint is bytes here. The reader decides whether it is valid.
"""

import json
import logging
from typing import Final

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.bucket import Bucket, ConflictError
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.subjects import Names

_log = logging.getLogger(__name__)

_INFO: Final = "$JS.API.STREAM.INFO"
# The broker closes the connection of a client that sends a larger message. The library checks
# the body only.
_HEADER_BYTES: Final = 256


class Checkpoints:
    """Stores checkpoints under their execution and event number."""

    def __init__(self, broker: Broker, names: Names) -> None:
        self._broker = broker
        self._name = names.checkpoints_bucket
        self._bucket = Bucket(broker, self._name)

    async def put(self, execution_id: str, seq: int, data: bytes) -> bool:
        """Store the checkpoint at the event `seq`; return False if no message can hold it.

        It replaces another checkpoint of the same event: a reader that could use that one would
        not have replayed the log.
        """
        if len(data) + _HEADER_BYTES > self._broker.require_up().max_payload:
            return False
        key = subjects.checkpoint_key(execution_id, seq)
        try:
            try:
                await self._bucket.create(key, data)
            except ConflictError:
                found = await self._bucket.read(key)
                if found is not None and found.data != data:
                    await self._bucket.replace(key, data, found.revision)
        except ConflictError:
            # Another gateway has stored one in the meantime.
            _log.debug("checkpoint exists", extra={"execution_id": execution_id, "seq": seq})
        return True

    async def newest(self, execution_id: str, at_most_seq: int) -> tuple[int, bytes] | None:
        """Return the checkpoint with the highest event number up to `at_most_seq`, if any.

        The broker looks up the keys of this execution only.
        """
        for seq in await self._seqs(execution_id):
            if seq > at_most_seq:
                continue
            found = await self._bucket.read(subjects.checkpoint_key(execution_id, seq))
            # A checkpoint may expire after its key was listed.
            if found is not None and found.data is not None:
                return seq, found.data
        return None

    async def _seqs(self, execution_id: str) -> list[int]:
        """Return the event numbers of the checkpoints of an execution, highest first."""
        pattern = subjects.kv_key(self._name, subjects.checkpoint_keys(execution_id))
        request = json.dumps({"subjects_filter": pattern}).encode()
        info = f"{_INFO}.{subjects.kv_stream(self._name)}"
        answer = await ask(self._broker.require_up(), info, request)
        keys = answer["state"].get("subjects") or ()
        found = map(subjects.seq_of_checkpoint, keys)
        return sorted((seq for seq in found if seq is not None), reverse=True)
