"""Hides a worker from lists, or shows it again."""

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

# A worker writes twice a second at most; whoever loses this often meets something else.
_TRIES: Final = 100
_PAUSE_SEC: Final = 0.01


@dataclass(frozen=True, slots=True)
class HideWorker:
    """Changes `hidden` and nothing else of a record, by compare-and-set against its worker."""

    bucket: Bucket
    workers: WorkerDirectory
    clock: Callable[[], float] = time.time

    async def __call__(self, worker_id: str, *, hidden: bool) -> WorkerPatched:
        """Return what stands in the registry now; raise WorkerNotFoundError for nobody.

        What cannot be an id is not looked up: as a subject it could mean every worker, or break
        the request.
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
                # Not in step with whoever writes there: it could be first for ever.
                await anyio.sleep(random.uniform(0, _PAUSE_SEC))  # noqa: S311 - no secret
                continue
            return self._noted(worker_id, changed, revision, hidden)
        raise BrokerUnavailableError(f"the record of worker {worker_id} does not keep still")

    def _noted(
        self, worker_id: str, data: bytes, revision: Revision, hidden: bool
    ) -> WorkerPatched:
        now = self.clock()
        # Who asks for the list next must find it so; the watch tells of it a moment later.
        self.workers.on_entry(
            Entry(key=worker_id, revision=revision, value=data, written_at=now, pending=0)
        )
        return WorkerPatched(worker_id=worker_id, hidden=hidden, updated_at=now)


def _with_hidden(worker_id: str, data: bytes, hidden: bool) -> bytes:
    try:
        WorkerRecord.model_validate_json(data)
    except ValidationError:
        raise WorkerNotFoundError(worker_id) from None
    # As it stands: a worker newer than this gateway may say more than is known here.
    return json.dumps({**json.loads(data), "hidden": hidden}).encode()
