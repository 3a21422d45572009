"""Takes a run in: stored first, queued second, answered only when both are sure."""

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
from pyoco_protocol.jetstream.run_store import ConflictError, Revision, RunStore
from pyoco_protocol.logging.setup import error_fields
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
# What the rest of its record adds to a job at most.
_RECORD_BYTES: Final = 2048


class MessageTooLargeError(PyocoError):
    """A stream takes no message of this size: its operator gave it a limit of its own."""

    entry = CATALOGUE["ERR-PYOCO-0101"]
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE

    def __init__(self, size_bytes: int) -> None:
        super().__init__(
            f"the broker takes no job of {size_bytes} bytes", extra={"size_bytes": size_bytes}
        )


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """What a caller calls its submission: the run it stands for, and what was submitted."""

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
        """Return what `key` stands for; the order of keys in the body does not matter."""
        submitted = submission.model_dump(mode="json")
        if workflow_yaml_sha256 is not None:
            submitted["workflow_yaml_sha256"] = workflow_yaml_sha256
        canonical = json.dumps(submitted, sort_keys=True, separators=(",", ":"))
        # Whose the runs without a tenant are, whose are the keys they were submitted with.
        tenant = "" if caller.owns(None) else caller.tenant_id or ""
        return cls(
            idempotent_run_id(tenant, endpoint, key),
            hashlib.sha256(canonical.encode()).hexdigest(),
        )

    @classmethod
    def of_redrive(cls, run: RunSnapshot) -> "IdempotencyKey":
        """Return the one run that does a failed run again, however often that is asked for."""
        key = f"redrive:{run.run_id}"
        return cls(
            idempotent_run_id(run.tenant_id or "", "POST /dlq/redrive", run.run_id),
            hashlib.sha256(key.encode()).hexdigest(),
        )


@dataclass(frozen=True, slots=True)
class WorkflowFile:
    """A workflow file that is checked and kept; a run that brings one needs no installed flow."""

    text: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Submitted:
    """A run that is stored and queued; `replayed` if it was so before."""

    run: RunSnapshot
    replayed: bool
    # Whether no worker has taken it; one that is replayed may be long over.
    is_waiting: bool = True


@dataclass(frozen=True, slots=True)
class SubmitRun:
    """Queues a run for the next free worker that carries its tag."""

    store: RunStore
    queue: JobQueue
    default_tag: str
    max_params_bytes: int
    # This life of the gateway, and which of its runs may have no job.
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

        The record comes first: a worker that gets a job without one drops it. So a publish that
        surely failed takes the record back, at the revision written here and no other. One whose
        outcome nobody knows keeps it, for the job may be in the queue.

        With a key the same submission is the same run, however often it comes.
        """
        run = self._first_snapshot(submission, caller, key, workflow, redriven_from)
        job = self._job_of(run, workflow)
        if (seal := self.queue.seal(job.to_bytes())) is not None:
            run = run.model_copy(update={"seal": seal})
        try:
            return await self._take_in(run, job)
        except RefusedError as refusal:
            raise _named(refusal, job.to_bytes()) from refusal
        except (UnknownOutcomeError, asyncio.CancelledError) as error:
            # A request is cancelled only when this process ends. What was sent may still be done.
            raise SubmitOutcomeUnknownError(run.run_id) from error

    def is_confirmed(self, run: RunSnapshot) -> bool:
        """Whether this gateway took the run in and knows that its job is queued."""
        return run.accepted_by == self.gateway_id and run.run_id not in self.unconfirmed

    async def _take_in(self, run: RunSnapshot, job: RunJob) -> Submitted:
        while True:
            # Before the record is there: from then on the reaper may ask.
            is_ours = run.run_id not in self.unconfirmed
            self.unconfirmed.add(run.run_id)
            try:
                revision = await self.store.create(run)
            except ConflictError:
                if is_ours:
                    self.unconfirmed.discard(run.run_id)
                found = await self._found_again(run, job)
                if found is not None:
                    # Answered as the first time, whatever has become of it since.
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
            await self._publish(run, job.with_record(run, revision), revision)
            self.unconfirmed.discard(run.run_id)
            reached(Failpoint.SUBMIT_PUBLISHED)
            return Submitted(run, replayed=False)

    async def _found_again(self, run: RunSnapshot, job: RunJob) -> RunSnapshot | None:
        """Return the run that its key stands for, queued for sure; None if it went meanwhile."""
        stored = await self.store.read(run.run_id)
        if stored is None:
            return None
        if stored.snapshot.request_hash != run.request_hash:
            raise IdempotencyKeyReusedError(run.run_id)
        if stored.snapshot.status is RunStatus.PENDING:
            # Whoever took it in may have failed to queue it, and may be about to take the record
            # back. A write of ours keeps it from that; then the job is queued, perhaps again.
            # From that write on it is for us to see that it is.
            kept = stored.snapshot.model_copy(
                update={"accepted_by": self.gateway_id, "updated_at": self.clock()}
            )
            self.unconfirmed.add(run.run_id)
            try:
                await self.store.replace(kept, stored.revision)
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
        # Params and text share the one message, whatever each may be alone.
        room = self.queue.max_job_bytes - _RECORD_BYTES - size
        if len(whole.to_bytes()) - size > room:
            raise WorkflowTooLargeError(max(room, 0), workflow.size_bytes)
        return whole

    async def _publish(self, run: RunSnapshot, job: RunJob, revision: Revision) -> None:
        try:
            await self.queue.publish(job_message_id(run), job.tag, job.to_bytes())
        except UnknownOutcomeError:
            raise
        except (RefusedError, BrokerUnavailableError):
            await self._take_back(run, revision)
            self.unconfirmed.discard(run.run_id)
            raise

    async def _take_back(self, run: RunSnapshot, revision: Revision) -> None:
        try:
            await self.store.delete(run.run_id, revision)
        except (RefusedError, BrokerUnavailableError, ConflictError) as error:
            orphan = OrphanRunError(run.run_id, f"{type(error).__name__}: {error}")
            _log.error("run left without a job", extra=error_fields(orphan), exc_info=error)
            # It stays, and what stays may yet be run.
            raise UnknownOutcomeError(str(error)) from error


def _named(refusal: RefusedError, job: bytes) -> PyocoError:
    if refusal.err_code == _MESSAGE_TOO_LARGE:
        return MessageTooLargeError(len(job))
    return BrokerUnavailableError(str(refusal))
