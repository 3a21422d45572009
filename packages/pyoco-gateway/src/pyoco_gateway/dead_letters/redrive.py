"""Does failed runs again: each dead letter becomes a new run, and only one."""

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

# What a caller waits for one answer; the rest is for the next request.
_MAX_SEC: Final = 30.0


@dataclass(frozen=True, slots=True)
class Redrive:
    """Submits the runs of dead letters anew, with the params that their records hold.

    The new run's id is made from the old one's. So whatever crashes or is clicked twice, and
    however many letters speak of one run, it is done again once. A letter goes when its new run
    is stored and queued; one that outlives that leads to the same new run.
    """

    letters: DeadLetters
    store: RunStore
    submit_run: SubmitRun
    texts: WorkflowTexts

    async def __call__(self, seq: str, caller: Caller) -> tuple[Redriven, bool]:
        """Return the new run of a letter, and whether it was there before."""
        stored = await self.letters.read(seq, caller)
        run = await self._run_of(stored, caller)
        key = IdempotencyKey.of_redrive(run)
        submission = _submission_of(run, stored.seq)
        workflow = await self._workflow_of(run, stored.seq)
        self._require_taken_in(run, workflow, stored.seq)
        if workflow is not None:
            # Kept for the new run as long as for one that was just submitted.
            await self.texts.put(workflow.text, now=time.time())
        submitted = await self.submit_run(
            submission,
            _owner_of(run, caller),
            key=key,
            redriven_from=run.run_id,
            workflow=workflow,
        )
        reached(Failpoint.LETTER_REDRIVEN)
        await self._remove(stored.seq)
        redriven = Redriven(seq=stored.seq, run_id=run.run_id, new_run_id=key.run_id)
        return redriven, submitted.replayed

    async def by_filter(self, request: RedriveRequest, caller: Caller) -> RedriveReport:
        """Redrive the caller's letters that match, the oldest first, no faster than asked.

        Letters that come meanwhile are not among them.
        """
        wanted = LetterFilter(reason=request.reason, tag=request.tag, run_id=request.run_id)
        seqs = await self.letters.matching(wanted, caller, limit=request.max + 1)
        sweep = _Sweep(self, request, caller, seqs[: request.max])
        return await sweep.run(more=len(seqs) > request.max)

    async def preview(self, seq: str, caller: Caller) -> Redriven:
        """Return what a redrive would lead to; nothing is changed."""
        stored = await self.letters.read(seq, caller)
        run = await self._run_of(stored, caller)
        _submission_of(run, stored.seq)
        self._require_taken_in(run, await self._workflow_of(run, stored.seq), stored.seq)
        new_run_id = IdempotencyKey.of_redrive(run).run_id
        return Redriven(seq=stored.seq, run_id=run.run_id, new_run_id=new_run_id)

    async def _run_of(self, stored: StoredLetter, caller: Caller) -> RunSnapshot:
        run_id, seq = stored.letter.run_id, stored.seq
        if run_id is None or not is_run_id(run_id):
            raise NotRedrivableError(seq, "it names no run")
        try:
            found = await self.store.read(run_id)
        except SnapshotUnreadableError as error:
            raise NotRedrivableError(seq, error.detail, run_id) from error
        if found is None or not caller.owns(found.snapshot.tenant_id):
            raise NotRedrivableError(seq, f"the record of run {run_id} is gone", run_id)
        run = found.snapshot
        if run.status is not RunStatus.FAILED:
            # What goes on or went well is not done twice, and a cancel stays one.
            raise NotRedrivableError(seq, f"run {run_id} is {run.status}, not FAILED", run_id)
        return run

    async def _workflow_of(self, run: RunSnapshot, seq: int) -> WorkflowFile | None:
        """Return the workflow file that the run came with; None for a run of an installed flow."""
        sha256 = run.workflow_yaml_sha256
        if sha256 is None:
            return None
        text = await self.texts.get(sha256)
        if text is None:
            why = f"the workflow file of run {run.run_id} is gone"
            raise NotRedrivableError(seq, why, run.run_id)
        return WorkflowFile(text, sha256, len(text.encode()))

    def _require_taken_in(self, run: RunSnapshot, workflow: WorkflowFile | None, seq: int) -> None:
        """Raise NotRedrivableError where jobs are signed, and this run is none that we took in."""
        job = RunJob.of(run, default_tag=self.submit_run.default_tag)
        if workflow is not None:
            job = job.with_workflow(workflow.text, workflow.sha256)
        try:
            self.submit_run.queue.require_seal(job.to_bytes(), run.seal)
        except JobSignatureError as error:
            raise NotRedrivableError(seq, error.detail, run.run_id) from error

    async def _remove(self, seq: int) -> None:
        try:
            await self.letters.shelf.remove(seq)
        except (BrokerUnavailableError, RefusedError) as error:
            extra = {"seq": seq, "reason": str(error)}
            _log.warning("redriven dead letter not removed", extra=extra)
        else:
            self.letters.index.drop(seq)


class _Sweep:
    """One request to redrive several letters."""

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
        """Return what was done when all are through, or time is up."""
        started = due = time.monotonic()
        pause = 0.0 if self._request.dry_run else 1 / self._request.rate_per_sec
        for seq in self._seqs:
            await anyio.sleep(max(0.0, min(due, started + _MAX_SEC) - time.monotonic()))
            now = time.monotonic()
            if now - started >= _MAX_SEC or not await self._take(seq):
                more = True
                break
            if self._redriven and self._redriven[-1].seq == seq:
                # Counted from here: what was held up is not made up for.
                due = now + pause
        return RedriveReport(
            matched=len(self._seqs),
            redriven=tuple(self._redriven),
            failed=tuple(self._failed),
            remaining=more,
            dry_run=self._request.dry_run,
        )

    async def _take(self, seq: int) -> bool:
        """Redrive a letter; False where there is no sense in going on."""
        try:
            if self._request.dry_run:
                redriven = await self._redrive.preview(str(seq), self._caller)
            else:
                redriven, _ = await self._redrive(str(seq), self._caller)
        except (BrokerUnavailableError, SubmitOutcomeUnknownError) as error:
            if not self._redriven:
                raise
            # What is done must be told.
            self._note(seq, error)
            return False
        except PyocoError as error:
            self._note(seq, error)
        else:
            self._redriven.append(redriven)
        return True

    def _note(self, seq: int, error: PyocoError) -> None:
        failure = RedriveFailure(seq=seq, err_id=error.entry.err_id, detail=error.detail)
        self._failed.append(failure)


def _owner_of(run: RunSnapshot, caller: Caller) -> Caller:
    """Return who is to have the new run: the tenant of the old one, whoever asks for it."""
    return replace(
        caller,
        tenant_id=run.tenant_id or caller.tenant_id,
        key_id=caller.key_id or run.api_key_id,
    )


def _submission_of(run: RunSnapshot, seq: int) -> RunSubmission:
    """Return what was submitted then, as the record of the run has it."""
    try:
        return RunSubmission(
            flow_name=run.flow_name, params=run.params, tag=run.tag, tags=run.tags or None
        )
    except ValidationError as error:
        why = f"the record of run {run.run_id} is none of a run that could be submitted"
        raise NotRedrivableError(seq, why, run.run_id) from error
