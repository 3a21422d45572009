"""Removes a message from the queue that is not a valid job."""

import json
import logging
import time
from dataclasses import dataclass
from typing import Final

import anyio

from pyoco_protocol.dead_letters import DeadLetterReason
from pyoco_protocol.ids import is_run_id
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.jetstream.run_store import RunStore, StoredRun
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import (
    BrokerUnavailableError,
    InvalidJobError,
    JobSignatureError,
    SnapshotUnreadableError,
)
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.subjects import Names
from pyoco_worker.delivery import Delivery
from pyoco_worker.run.outcome import Outcome, ended
from pyoco_worker.run.settle import Settler

_log = logging.getLogger(__name__)

_RETRY_SEC: Final = 0.5
_LOG_MESSAGES: Final = {
    DeadLetterReason.INVALID_JOB: "invalid job",
    DeadLetterReason.UNTRUSTED_JOB: "untrusted job",
}


@dataclass(frozen=True, slots=True)
class Refuser:
    """Publishes a dead letter for an invalid job, and fails the run that it names."""

    broker: Broker
    names: Names
    store: RunStore
    settler: Settler

    async def refuse(self, delivery: Delivery, error: InvalidJobError) -> None:
        """Return when the dead letter is stored and the message is removed."""
        tag = self.names.tag_of_work(delivery.subject)
        run_id = run_id_in(delivery.data)
        tenant_id = tenant_in(delivery.data)
        extra = {"tag": tag, "run_id": run_id, "stream_seq": delivery.stream_seq}
        reason = DeadLetterReason.INVALID_JOB
        if isinstance(error, JobSignatureError):
            # The sender may not have had the right to queue it, so operators need to see this.
            reason = DeadLetterReason.UNTRUSTED_JOB
        _log.error(
            _LOG_MESSAGES[reason],
            extra={**extra, "worker_id": self.settler.me.worker_id, "reason": reason.value},
            exc_info=error,
        )
        if run_id is not None:
            run = await self._fail_waiting_run(run_id, error)
            # The tenant of the record is trusted, that of the message is not.
            tenant_id = tenant_id if run is None else run.tenant_id
        await self.settler.publish_dead_letter(
            reason,
            error.detail,
            error.entry.err_id,
            None,
            delivery,
            tag=tag,
            run_id=run_id,
            tenant_id=tenant_id,
        )
        await self.settler.drop(delivery, _LOG_MESSAGES[reason])

    async def _fail_waiting_run(self, run_id: str, error: InvalidJobError) -> RunSnapshot | None:
        """Return the run after it was failed because of its invalid job; None if there is none.

        A run that was claimed through another job is left unchanged. A recorded cancel makes the
        store end the run CANCELLED.
        """

        def fail(stored: StoredRun) -> RunSnapshot | None:
            if stored.snapshot.status is not RunStatus.PENDING:
                return None
            outcome = Outcome(RunStatus.FAILED, error.detail, error.entry.err_id)
            return ended(stored.snapshot, outcome, now=time.time())

        while True:
            try:
                stored = await self.store.change(run_id, fail)
            except (BrokerUnavailableError, RefusedError):
                await anyio.sleep(_RETRY_SEC)
                await self.broker.wait_until_up()
            except SnapshotUnreadableError as unreadable:
                _log.warning("run of an invalid job not failed", extra=error_fields(unreadable))
                return None
            else:
                return None if stored is None else stored.snapshot


def run_id_in(data: bytes) -> str | None:
    """Return the run id in a message that is not a valid job."""
    run_id = _named_in(data, "run_id")
    return run_id if run_id is not None and is_run_id(run_id) else None


def tenant_in(data: bytes) -> str | None:
    """Return the tenant id in a message that is not a valid job."""
    return _named_in(data, "tenant_id")


def _named_in(data: bytes, field: str) -> str | None:
    try:
        value = json.loads(data)[field]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return value if isinstance(value, str) else None
