"""Hides a worker from lists or shows it again."""

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio
from pydantic import ValidationError

from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.http.workers import WorkerPatched
from pyoco_protocol.ids import is_worker_id
from pyoco_protocol.jetstream.bucket import Bucket, ConflictError, Revision
from pyoco_protocol.jetstream.bucket_watch import Entry
from pyoco_protocol.problems import BrokerUnavailableError, WorkerNotFoundError
from pyoco_protocol.workers import WorkerRecord

# A worker writes at most twice a second, so this many conflicts have another cause.
_TRIES: Final = 100
_PAUSE_SEC: Final = 0.01


@dataclass(frozen=True, slots=True)
class HideWorker:
    """Changes only `hidden` in a worker's record, by compare-and-set: the worker writes it too."""

    bucket: Bucket
    workers: WorkerDirectory
    clock: Callable[[], float] = time.time

    async def __call__(self, worker_id: str, *, hidden: bool) -> WorkerPatched:
        """Return the stored change; raise WorkerNotFoundError if there is no such worker.

        An invalid id is not looked up: in a NATS subject it could match every worker or break the
        request.
        """
        if not is_worker_id(worker_id) and worker_id not in self.workers:
            raise WorkerNotFoundError(shortened(worker_id))
        for _ in range(_TRIES):
            found = await self.bucket.read(worker_id)
            if found is None or found.data is None:
                raise WorkerNotFoundError(worker_id)
            changed = _with_hidden(worker_id, found.data, hidden)
            try:
                revision = await self.bucket.replace(worker_id, changed, found.revision)
            except ConflictError:
                # A random pause, to get out of step with the other writer.
                await anyio.sleep(random.uniform(0, _PAUSE_SEC))  # noqa: S311 - no secret
                continue
            return self._stored(worker_id, changed, revision, hidden)
        raise BrokerUnavailableError(f"the record of worker {worker_id} changes too often")

    def _stored(
        self, worker_id: str, data: bytes, revision: Revision, hidden: bool
    ) -> WorkerPatched:
        now = self.clock()
        # Applied here as well, so that the next list shows the change before the watch delivers it.
        self.workers.on_entry(
            Entry(key=worker_id, revision=revision, value=data, written_at=now, pending=0)
        )
        return WorkerPatched(worker_id=worker_id, hidden=hidden, updated_at=now)


def _with_hidden(worker_id: str, data: bytes, hidden: bool) -> bytes:
    try:
        WorkerRecord.model_validate_json(data)
    except ValidationError:
        raise WorkerNotFoundError(worker_id) from None
    # Keeps unknown fields, which a worker newer than this gateway may write.
    return json.dumps({**json.loads(data), "hidden": hidden}).encode()
