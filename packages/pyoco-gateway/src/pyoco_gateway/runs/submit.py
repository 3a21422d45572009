"""Submits a run: stores its record, then queues its job, and answers when both are confirmed."""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.runs.job_queue import JobQueue
from pyoco_protocol.failpoints import Failpoint, reached
from pyoco_protocol.http.runs import RunSubmission
from pyoco_protocol.ids import idempotent_run_id, new_instance_id, new_run_id
from pyoco_protocol.jetstream.requests import RefusedError, UnknownOutcomeError
from pyoco_protocol.jetstream.run_store import ConflictError, RunStore, StoredRun
from pyoco_protocol.problems import (
    CATALOGUE,
    BrokerUnavailableError,
    IdempotencyKeyReusedError,
    OrphanRunError,
    ParamsTooLargeError,
    PyocoError,
    SubmitOutcomeUnknownError,
    WorkflowTooLargeError,
)
from pyoco_protocol.runs.job import RunJob, job_message_id
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot

_log = logging.getLogger(__name__)

_MESSAGE_TOO_LARGE: Final = 10054
# Upper bound for what the record adds to the size of its job.
_RECORD_BYTES: Final = 2048


class MessageTooLargeError(PyocoError):
    """The stream accepts no message of this size, because its operator set a lower limit."""

    entry = CATALOGUE["ERR-PYOCO-0101"]
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE

    def __init__(self, size_bytes: int) -> None:
        super().__init__(
            f"the broker accepts no job of {size_bytes} bytes", extra={"size_bytes": size_bytes}
        )


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """An idempotency key: the id of its run, and a hash of the submitted body."""

    run_id: str
    request_hash: str

    @classmethod
    def of(
        cls,
        key: str,
        submission: RunSubmission,
        caller: Caller,
        *,
        endpoint: str = "POST /runs",
        workflow_yaml_sha256: str | None = None,
    ) -> "IdempotencyKey":
        """Return the run id and the hash of `key`; the order of fields in the body is ignored."""
        submitted = submission.model_dump(mode="json")
        if workflow_yaml_sha256 is not None:
            submitted["workflow_yaml_sha256"] = workflow_yaml_sha256
        canonical = json.dumps(submitted, sort_keys=True, separators=(",", ":"))
        # A caller that owns the runs without a tenant also shares their idempotency keys.
        tenant = "" if caller.owns(None) else caller.tenant_id or ""
        return cls(
            idempotent_run_id(tenant, endpoint, key),
            hashlib.sha256(canonical.encode()).hexdigest(),
        )

    @classmethod
    def of_redrive(cls, run: RunSnapshot) -> "IdempotencyKey":
        """Return the key of the one run that repeats a failed run, for any number of requests."""
        key = f"redrive:{run.run_id}"
        return cls(
            idempotent_run_id(run.tenant_id or "", "POST /dlq/redrive", run.run_id),
            hashlib.sha256(key.encode()).hexdigest(),
        )


@dataclass(frozen=True, slots=True)
class WorkflowFile:
    """A checked and stored workflow file; its runs need no installed flow."""

    text: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Submitted:
    """A stored and queued run; `replayed` if an earlier request submitted it."""

    run: RunSnapshot
    replayed: bool
    # Whether no worker has claimed it; a replayed run may have ended.
    is_waiting: bool = True


@dataclass(frozen=True, slots=True)
class SubmitRun:
    """Queues a run for the next free worker that carries its tag."""

    store: RunStore
    queue: JobQueue
    default_tag: str
    max_params_bytes: int
    # The id of this gateway process, and those of its runs that may have no job.
    gateway_id: str = field(default_factory=new_instance_id)
    unconfirmed: set[str] = field(default_factory=set)
    clock: Callable[[], float] = time.time

    async def __call__(
        self,
        submission: RunSubmission,
        caller: Caller,
        *,
        key: IdempotencyKey | None = None,
        redriven_from: str | None = None,
        workflow: WorkflowFile | None = None,
    ) -> Submitted:
        """Return the run, stored and queued.

        The record is stored first, because a worker drops a job without a record. A publish that
        definitely failed withdraws the record, unless another writer has changed it. A publish
        with an unknown outcome keeps the record, because the job may be in the queue.

        With a key, the same submission always returns the same run.
        """
        run = self._first_snapshot(submission, caller, key, workflow, redriven_from)
        job = self._job_of(run, workflow)
        if (seal := self.queue.seal(job.to_bytes())) is not None:
            run = run.model_copy(update={"seal": seal})
        try:
            return await self._store_and_queue(run, job)
        except RefusedError as refusal:
            raise _named(refusal, job.to_bytes()) from refusal
        except (UnknownOutcomeError, asyncio.CancelledError) as error:
            # A request is cancelled when the process stops or by `TimeLimit`. The broker may still
            # store what was sent.
            raise SubmitOutcomeUnknownError(run.run_id) from error

    def is_confirmed(self, run: RunSnapshot) -> bool:
        """Whether this gateway accepted the run and knows that its job is queued."""
        return run.accepted_by == self.gateway_id and run.run_id not in self.unconfirmed

    async def _store_and_queue(self, run: RunSnapshot, job: RunJob) -> Submitted:
        while True:
            # Before the record is stored: from then on the reaper may ask `is_confirmed`.
            is_ours = run.run_id not in self.unconfirmed
            self.unconfirmed.add(run.run_id)
            try:
                created = await self.store.create(run)
            except ConflictError:
                if is_ours:
                    self.unconfirmed.discard(run.run_id)
                found = await self._found_again(run, job)
                if found is not None:
                    # Each submission with this key gets the same answer, also after the end.
                    first = found.model_copy(update={"status": RunStatus.PENDING})
                    is_waiting = found.status is RunStatus.PENDING
                    return Submitted(first, replayed=True, is_waiting=is_waiting)
                continue
            except UnknownOutcomeError:
                raise
            except (BrokerUnavailableError, RefusedError):
                if is_ours:
                    self.unconfirmed.discard(run.run_id)
                raise
            reached(Failpoint.SUBMIT_CREATED)
            await self._publish(created, job.with_record(run, created.revision))
            self.unconfirmed.discard(run.run_id)
            reached(Failpoint.SUBMIT_PUBLISHED)
            return Submitted(run, replayed=False)

    async def _found_again(self, run: RunSnapshot, job: RunJob) -> RunSnapshot | None:
        """Return the existing run of a key, with its job queued; None if it was just deleted."""
        stored = await self.store.read(run.run_id)
        if stored is None:
            return None
        if stored.snapshot.request_hash != run.request_hash:
            raise IdempotencyKeyReusedError(run.run_id)
        if stored.snapshot.status is RunStatus.PENDING:
            # The gateway that accepted the run may have failed to queue it, and may be about to
            # withdraw the record. This write prevents that, and makes this gateway responsible
            # for the job, which is then published, perhaps for the second time.
            kept = stored.snapshot.model_copy(
                update={"accepted_by": self.gateway_id, "updated_at": self.clock()}
            )
            self.unconfirmed.add(run.run_id)
            try:
                await self.store.replace(stored, kept)
            except ConflictError:
                return await self._found_again(run, job)
            await self.queue.publish(job_message_id(stored.snapshot), job.tag, job.to_bytes())
        self.unconfirmed.discard(run.run_id)
        return stored.snapshot

    def _first_snapshot(
        self,
        submission: RunSubmission,
        caller: Caller,
        key: IdempotencyKey | None,
        workflow: WorkflowFile | None,
        redriven_from: str | None,
    ) -> RunSnapshot:
        now = self.clock()
        tag = submission.tag or self.default_tag
        return RunSnapshot(
            run_id=new_run_id() if key is None else key.run_id,
            flow_name=submission.flow_name,
            status=RunStatus.PENDING,
            params=submission.params,
            heartbeat_at=now,
            updated_at=now,
            submitted_at=now,
            accepted_by=self.gateway_id,
            tag=tag,
            tags=(tag,) if submission.tags is None else submission.tags,
            tenant_id=caller.tenant_id,
            api_key_id=caller.key_id,
            request_hash=None if key is None else key.request_hash,
            workflow_yaml_sha256=None if workflow is None else workflow.sha256,
            workflow_yaml_bytes=None if workflow is None else workflow.size_bytes,
            redriven_from=redriven_from,
        )

    def _job_of(self, run: RunSnapshot, workflow: WorkflowFile | None) -> RunJob:
        job = RunJob.of(run, default_tag=self.default_tag)
        size = len(job.to_bytes())
        limit = min(self.max_params_bytes, self.queue.max_job_bytes - _RECORD_BYTES)
        if size > limit:
            raise ParamsTooLargeError(limit, size)
        if workflow is None:
            return job
        whole = job.with_workflow(workflow.text, workflow.sha256)
        # Params and workflow text share one message, so their sum is limited too.
        room = self.queue.max_job_bytes - _RECORD_BYTES - size
        if len(whole.to_bytes()) - size > room:
            raise WorkflowTooLargeError(max(room, 0), workflow.size_bytes)
        return whole

    async def _publish(self, created: StoredRun, job: RunJob) -> None:
        run = created.snapshot
        try:
            await self.queue.publish(job_message_id(run), job.tag, job.to_bytes())
        except UnknownOutcomeError:
            raise
        except (RefusedError, BrokerUnavailableError):
            await self._withdraw(created)
            self.unconfirmed.discard(run.run_id)
            raise

    async def _withdraw(self, created: StoredRun) -> None:
        try:
            await self.store.withdraw(created)
        except (RefusedError, BrokerUnavailableError, ConflictError) as error:
            orphan = OrphanRunError(created.snapshot.run_id, f"{type(error).__name__}: {error}")
            orphan.__cause__ = error
            _log.error("run left without a job", exc_info=orphan)
            # The record stays, so the run may still be executed.
            raise UnknownOutcomeError(str(error)) from error


def _named(refusal: RefusedError, job: bytes) -> PyocoError:
    if refusal.err_code == _MESSAGE_TOO_LARGE:
        return MessageTooLargeError(len(job))
    return BrokerUnavailableError(str(refusal))
