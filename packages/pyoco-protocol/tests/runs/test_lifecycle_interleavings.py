"""Several writers with outdated copies of one record: the laws hold in any order of writes."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pyoco_protocol.runs.lifecycle import (
    RANKS,
    Forbidden,
    ForbiddenWriteError,
    RunStatus,
    next_record,
)
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_testkit.builders import snapshot

WORKERS = ("worker-1", "worker-2")
GATEWAYS = ("gateway-1", "gateway-2")

workers = st.sampled_from(WORKERS)
gateways = st.sampled_from(GATEWAYS)
writers = st.sampled_from(WORKERS + GATEWAYS)
statuses_of_workers = st.sampled_from(
    [RunStatus.RUNNING, RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED]
)


class OneRunManyWriters(RuleBasedStateMachine):
    """One record that follows the lifecycle, and writers that read it now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.latest = snapshot()
        self.copies = dict.fromkeys(WORKERS + GATEWAYS, self.latest)
        self.history = [self.latest]
        self.first_cancel: RunSnapshot | None = None
        self.first_end: RunSnapshot | None = None
        self.ended_by: RunStatus | None = None

    def write(self, proposed: RunSnapshot) -> None:
        try:
            after = next_record(self.latest, proposed)
        except ForbiddenWriteError as refused:
            if refused.reason is not Forbidden.ENDED:
                raise
            after = self.latest
        if self.first_end is None:
            if self.first_cancel is None and after.cancel_requested_at is not None:
                self.first_cancel = after
            if after.status.is_terminal:
                self.first_end, self.ended_by = after, proposed.status
        self.latest = after
        self.history.append(after)

    @rule(writer=writers)
    def read(self, writer: str) -> None:
        self.copies[writer] = self.latest

    @rule(worker=workers, status=statuses_of_workers, at=st.floats(1, 1e9))
    def worker_writes(self, worker: str, status: RunStatus, at: float) -> None:
        seen = self.copies[worker]
        self.write(
            seen.model_copy(
                update={"status": status, "worker_id": worker, "heartbeat_at": at, "updated_at": at}
            )
        )

    @rule(gateway=gateways, at=st.floats(1, 1e9))
    def gateway_cancels(self, gateway: str, at: float) -> None:
        seen = self.copies[gateway]
        if seen.status.is_terminal:
            return
        self.write(
            seen.model_copy(
                update={
                    "status": RunStatus.CANCELLING,
                    "cancel_requested_at": at,
                    "cancel_requested_by": gateway,
                    "cancel_reason": f"asked at {at}",
                }
            )
        )

    @invariant()
    def the_end_never_changes(self) -> None:
        if self.first_end is not None:
            assert self.latest == self.first_end

    @precondition(lambda self: self.first_cancel is not None)
    @invariant()
    def the_first_cancel_is_neither_lost_nor_overwritten(self) -> None:
        assert self.first_cancel is not None
        assert self.latest.cancel_requested_at == self.first_cancel.cancel_requested_at
        assert self.latest.cancel_requested_by == self.first_cancel.cancel_requested_by
        assert self.latest.cancel_reason == self.first_cancel.cancel_reason

    @precondition(lambda self: self.first_cancel is not None)
    @invariant()
    def a_recorded_cancel_can_only_end_cancelled(self) -> None:
        assert self.latest.status in (RunStatus.CANCELLING, RunStatus.CANCELLED)

    @precondition(lambda self: self.first_cancel is not None and self.first_end is not None)
    @invariant()
    def what_it_would_have_ended_as_is_kept(self) -> None:
        late = self.ended_by if self.ended_by is not RunStatus.CANCELLED else None
        assert self.latest.late_outcome == late

    @invariant()
    def no_step_takes_the_run_back(self) -> None:
        ranks = [RANKS[each.status] for each in self.history]
        assert ranks == sorted(ranks)


OneRunManyWriters.TestCase.settings = settings(max_examples=300, stateful_step_count=25)
TestOneRunManyWriters = OneRunManyWriters.TestCase
