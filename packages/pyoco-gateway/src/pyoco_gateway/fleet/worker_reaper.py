"""Takes workers out of the registry that have been gone for days."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio

from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_protocol.jetstream.bucket import Bucket, ConflictError
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.workers import is_forgotten

_log = logging.getLogger(__name__)

_PAUSE_SEC: Final = 60.0


@dataclass(slots=True)
class WorkerRecordReaper:
    """Many gateways may do this side by side: a record goes at the revision that was judged."""

    bucket: Bucket
    workers: WorkerDirectory
    clock: Callable[[], float] = time.time
    removed: int = 0

    async def run(self) -> None:
        """Look every now and then, until cancelled."""
        while True:
            if self.workers.is_current:
                await self.sweep()
            await anyio.sleep(_PAUSE_SEC)

    async def sweep(self) -> None:
        """Remove the records of those that are long gone."""
        for sighting in self.workers.sightings():
            # By the broker's clock: that of the worker's host may say anything.
            gone_sec = self.clock() - sighting.written_at
            if not is_forgotten(sighting.state, gone_sec=gone_sec):
                continue
            worker_id = sighting.record.worker_id
            try:
                await self.bucket.delete(worker_id, sighting.revision)
            except ConflictError:
                # It is back, or another gateway was faster.
                continue
            except (BrokerUnavailableError, RefusedError) as error:
                _log.info("worker record not removed now", extra={"reason": str(error)})
                return
            self.removed += 1
            _log.info("worker removed from the registry", extra={"worker_id": worker_id})
