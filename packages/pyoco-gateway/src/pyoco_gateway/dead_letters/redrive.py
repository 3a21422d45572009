"""Redrives dead letters: each failed run is submitted again as one new run."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import anyio
from pydantic import ValidationError

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.dead_letters.index import LetterFilter
from pyoco_gateway.dead_letters.read import DeadLetters
from pyoco_gateway.runs.submit import IdempotencyKey, SubmitRun, WorkflowFile
from pyoco_protocol.failpoints import Failpoint, reached
from pyoco_protocol.http.dead_letters import RedriveFailure, Redriven, RedriveReport, RedriveRequest
from pyoco_protocol.http.runs import RunSubmission
from pyoco_protocol.ids import is_run_id
from pyoco_protocol.jetstream.dead_letter_reader import StoredLetter
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.jetstream.workflow_texts import WorkflowTexts
from pyoco_protocol.problems import (
    BrokerUnavailableError,
    JobSignatureError,
    NotRedrivableError,
    PyocoError,
    SnapshotUnreadableError,
    SubmitOutcomeUnknownError,
)
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot

_log = logging.getLogger(__name__)

# Maximum duration of one request; the caller redrives the remaining letters with another one.
_MAX_SEC: Final = 30.0


@dataclass(frozen=True, slots=True)
class Redrive:
    """Submits the runs of dead letters again, with the params of their records.

    The new run's id is derived from the old one's. So a run is redriven once, even after crashes,
    repeated requests, or with several letters for one run. A letter is removed after its new run
    is stored and queued; if the removal fails, the letter leads to the same new run.
    """

    letters: DeadLetters
    store: RunStore
    submit_run: SubmitRun
    texts: WorkflowTexts

    async def __call__(self, seq: str, caller: Caller) -> tuple[Redriven, bool]:
        """Redrive a letter; return its new run, and whether that run existed before."""
        stored = await self.letters.read(seq, caller)
        run = await self._run_of(stored, caller)
        key = IdempotencyKey.of_redrive(run)
        submission = _submission_of(run, stored.seq)
        workflow = await self._workflow_of(run, stored.seq)
        self._require_accepted(run, workflow, stored.seq)
        if workflow is not None:
            # Stored again, to restart its retention for the new run.
            await self.texts.put(workflow.text, now=time.time())
        submitted = await self.submit_run(
            submission,
            _submitter_of(run, caller),
            key=key,
            redriven_from=run.run_id,
            workflow=workflow,
        )
        reached(Failpoint.LETTER_REDRIVEN)
        await self._remove(stored.seq)
        redriven = Redriven(seq=stored.seq, run_id=run.run_id, new_run_id=key.run_id)
        return redriven, submitted.replayed

    async def by_filter(self, request: RedriveRequest, caller: Caller) -> RedriveReport:
        """Redrive the caller's matching letters, oldest first, at the requested rate.

        Letters stored after the start of the request are not included.
        """
        letter_filter = LetterFilter(reason=request.reason, tag=request.tag, run_id=request.run_id)
        seqs = await self.letters.matching(letter_filter, caller, limit=request.max + 1)
        bulk = _BulkRedrive(self, request, caller, seqs[: request.max])
        return await bulk.run(more=len(seqs) > request.max)

    async def preview(self, seq: str, caller: Caller) -> Redriven:
        """Return the result that a redrive would have, without changing anything."""
        stored = await self.letters.read(seq, caller)
        run = await self._run_of(stored, caller)
        _submission_of(run, stored.seq)
        self._require_accepted(run, await self._workflow_of(run, stored.seq), stored.seq)
        new_run_id = IdempotencyKey.of_redrive(run).run_id
        return Redriven(seq=stored.seq, run_id=run.run_id, new_run_id=new_run_id)

    async def _run_of(self, stored: StoredLetter, caller: Caller) -> RunSnapshot:
        run_id, seq = stored.letter.run_id, stored.seq
        if run_id is None or not is_run_id(run_id):
            raise NotRedrivableError(seq, "it has no run id")
        try:
            found = await self.store.read(run_id)
        except SnapshotUnreadableError as error:
            raise NotRedrivableError(seq, error.detail, run_id) from error
        if found is None or not caller.owns(found.snapshot.tenant_id):
            raise NotRedrivableError(seq, f"the record of run {run_id} no longer exists", run_id)
        run = found.snapshot
        if run.status is not RunStatus.FAILED:
            # Active, completed and cancelled runs are not repeated.
            raise NotRedrivableError(seq, f"run {run_id} is {run.status}, not FAILED", run_id)
        return run

    async def _workflow_of(self, run: RunSnapshot, seq: int) -> WorkflowFile | None:
        """Return the run's workflow file; None for a run of an installed flow."""
        sha256 = run.workflow_yaml_sha256
        if sha256 is None:
            return None
        text = await self.texts.get(sha256)
        if text is None:
            reason = f"the workflow file of run {run.run_id} no longer exists"
            raise NotRedrivableError(seq, reason, run.run_id)
        return WorkflowFile(text, sha256, len(text.encode()))

    def _require_accepted(self, run: RunSnapshot, workflow: WorkflowFile | None, seq: int) -> None:
        """Raise NotRedrivableError if jobs are signed and no gateway accepted this run."""
        job = RunJob.of(run, default_tag=self.submit_run.default_tag)
        if workflow is not None:
            job = job.with_workflow(workflow.text, workflow.sha256)
        try:
            self.submit_run.queue.require_seal(job.to_bytes(), run.seal)
        except JobSignatureError as error:
            raise NotRedrivableError(seq, error.detail, run.run_id) from error

    async def _remove(self, seq: int) -> None:
        try:
            await self.letters.reader.remove(seq)
        except (BrokerUnavailableError, RefusedError) as error:
            extra = {"seq": seq, "reason": str(error)}
            _log.warning("redriven dead letter not removed", extra=extra)
        else:
            self.letters.index.drop(seq)


class _BulkRedrive:
    """One request that redrives several letters."""

    def __init__(
        self, redrive: Redrive, request: RedriveRequest, caller: Caller, seqs: Sequence[int]
    ) -> None:
        self._redrive = redrive
        self._request = request
        self._caller = caller
        self._seqs = seqs
        self._redriven: list[Redriven] = []
        self._failed: list[RedriveFailure] = []

    async def run(self, *, more: bool) -> RedriveReport:
        """Redrive the letters until all are done or the time is up; return the results."""
        started = due = time.monotonic()
        pause = 0.0 if self._request.dry_run else 1 / self._request.rate_per_sec
        for seq in self._seqs:
            await anyio.sleep(max(0.0, min(due, started + _MAX_SEC) - time.monotonic()))
            now = time.monotonic()
            if now - started >= _MAX_SEC or not await self._redrive_one(seq):
                more = True
                break
            if self._redriven and self._redriven[-1].seq == seq:
                # Measured from this letter, so that a delay is not followed by a burst.
                due = now + pause
        return RedriveReport(
            matched=len(self._seqs),
            redriven=tuple(self._redriven),
            failed=tuple(self._failed),
            remaining=more,
            dry_run=self._request.dry_run,
        )

    async def _redrive_one(self, seq: int) -> bool:
        """Redrive a letter; return False if the broker fails and the request has to stop."""
        try:
            if self._request.dry_run:
                redriven = await self._redrive.preview(str(seq), self._caller)
            else:
                redriven, _ = await self._redrive(str(seq), self._caller)
        except (BrokerUnavailableError, SubmitOutcomeUnknownError) as error:
            if not self._redriven:
                raise
            # The answer has to name the letters redriven so far.
            self._add_failure(seq, error)
            return False
        except PyocoError as error:
            self._add_failure(seq, error)
        else:
            self._redriven.append(redriven)
        return True

    def _add_failure(self, seq: int, error: PyocoError) -> None:
        failure = RedriveFailure(seq=seq, err_id=error.entry.err_id, detail=error.detail)
        self._failed.append(failure)


def _submitter_of(run: RunSnapshot, caller: Caller) -> Caller:
    """Return the caller with the tenant of the old run, which also gets the new one."""
    return replace(
        caller,
        tenant_id=run.tenant_id or caller.tenant_id,
        key_id=caller.key_id or run.api_key_id,
    )


def _submission_of(run: RunSnapshot, seq: int) -> RunSubmission:
    """Return the original submission, rebuilt from the run's record."""
    try:
        return RunSubmission(
            flow_name=run.flow_name, params=run.params, tag=run.tag, tags=run.tags or None
        )
    except ValidationError as error:
        reason = f"the record of run {run.run_id} is not a valid submission"
        raise NotRedrivableError(seq, reason, run.run_id) from error
