"""Removes workers from the registry that have been gone for days."""

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
    """Deletes records at the revision it checked, so that several gateways can run it."""

    bucket: Bucket
    workers: WorkerDirectory
    clock: Callable[[], float] = time.time
    removed: int = 0

    async def run(self) -> None:
        """Remove expired records once a minute until cancelled."""
        while True:
            if self.workers.is_current:
                await self.remove_expired()
            await anyio.sleep(_PAUSE_SEC)

    async def remove_expired(self) -> None:
        """Remove the records of workers that have been gone for too long."""
        for worker in self.workers.observed():
            # Measured by the broker's clock; the worker's clock may be wrong.
            gone_sec = self.clock() - worker.written_at
            if not is_forgotten(worker.state, gone_sec=gone_sec):
                continue
            worker_id = worker.record.worker_id
            try:
                await self.bucket.delete(worker_id, worker.revision)
            except ConflictError:
                # The worker is back, or another gateway removed the record.
                continue
            except (BrokerUnavailableError, RefusedError) as error:
                _log.info("worker record not removed now", extra={"reason": str(error)})
                return
            self.removed += 1
            _log.info("worker removed from the registry", extra={"worker_id": worker_id})
