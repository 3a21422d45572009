"""Arbitrary writes through every public method of the run store, in any order: the laws hold.

The machine checks each law against the raw messages of a real bucket. It uses nothing of
`runs.lifecycle` but the statuses, so that a mistake there cannot hide itself.
"""

import base64
import inspect
import json
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from pyoco_protocol import subjects
from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.ensure import ensure_topology
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.jetstream.run_store import (
    ConflictError,
    ForbiddenWriteError,
    RunStore,
    StoredRun,
)
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.settings import BrokerSettings, TopologySettings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import wanted_topology
from pyoco_testkit import strategies
from pyoco_testkit.builders import snapshot
from pyoco_testkit.nats_server import NatsServer

NAMES = Names()
RETENTION_SEC = 3600
READING_METHODS = {"read", "read_many"}
ENDS = {"COMPLETED", "FAILED", "CANCELLED"}
# The statuses that may follow each status where no cancel is recorded.
FOLLOWING = {
    "PENDING": set(RunStatus),
    "RUNNING": set(RunStatus) - {RunStatus.PENDING},
}
CANCEL_FIELDS = ("cancel_requested_at", "cancel_requested_by", "cancel_reason")


@dataclass(frozen=True)
class Message:
    """The newest message at the key of a run; `record` is None after a removal."""

    seq: int
    record: dict[str, Any] | None
    ttl: str | None


@dataclass(frozen=True)
class RealBucket:
    """The bucket of a running nats-server, for code that is not async."""

    portal: BlockingPortal
    broker: Broker

    def write(self, call: Callable[..., Any], *arguments: object) -> Any:
        """Return the result of a write; None where it was refused."""
        try:
            return self.portal.call(call, *arguments)
        except (ConflictError, ForbiddenWriteError):
            return None

    def newest(self, run_id: str) -> Message | None:
        """Return the newest message at the key of a run; None for a key never written."""
        read = subjects.last_message(subjects.kv_stream(NAMES.runs_bucket))
        request = json.dumps({"last_by_subj": NAMES.run(run_id)}).encode()
        try:
            answer = self.portal.call(ask, self.broker.client, read, request)
        except RefusedError:
            return None
        message = answer["message"]
        headers = base64.b64decode(message.get("hdrs") or b"").decode()
        lines = dict(line.split(": ", 1) for line in headers.splitlines() if ": " in line)
        removed = lines.get("KV-Operation") == "DEL"
        record = None if removed else json.loads(base64.b64decode(message["data"]))
        return Message(int(message["seq"]), record, lines.get("Nats-TTL"))


@pytest.fixture(scope="module")
def real_bucket(tmp_path_factory: pytest.TempPathFactory) -> Generator[RealBucket]:
    @asynccontextmanager
    async def opened() -> AsyncGenerator[Broker]:
        async def prepare(broker: Broker) -> None:
            await ensure_topology(broker.client, wanted_topology(TopologySettings()))

        async with NatsServer(tmp_path_factory.mktemp("nats")) as server:
            address = BrokerSettings(nats_url=server.url)
            async with open_broker(address, name="tests", prepare=prepare) as broker:
                await broker.wait_until_up()
                yield broker

    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(opened()) as broker,
    ):
        yield RealBucket(portal, broker)


# Fields that a proposal sets over those of the record it was made from.
changes = st.fixed_dictionaries(
    {},
    optional={
        "status": strategies.run_statuses,
        "attempt": st.integers(min_value=0, max_value=4),
        "worker_id": st.none() | st.just("worker-1"),
        "instance_id": st.none() | st.just("life"),
        "give_backs": st.integers(min_value=0, max_value=2),
        "job_seq": st.none() | st.just(7),
        "cancel_requested_at": st.none() | strategies.moments,
        "cancel_requested_by": st.none() | st.sampled_from(["alice", "bob"]),
        "cancel_reason": st.none() | st.just("too slow"),
        "late_outcome": st.none() | strategies.run_statuses,
        "error": st.none() | st.just("why"),
    },
)


class AnyWrites(RuleBasedStateMachine):
    """One run, written through the store with outdated and arbitrary records."""

    stored = Bundle("stored")
    bucket: RealBucket

    @initialize(target=stored)
    def begin(self) -> StoredRun:
        self.store = RunStore(self.bucket.broker, NAMES, retention_sec=RETENTION_SEC)
        self.run = snapshot(run_id=new_run_id())
        self.before: Message | None = None
        self.latest: StoredRun = self.bucket.portal.call(self.store.create, self.run)
        return self.latest

    def write(self, call: Callable[..., Any], *arguments: object) -> Any:
        """Add the record after a write to the bundle; nothing where the write was refused."""
        found: StoredRun | None = self.bucket.write(call, *arguments)
        if found is None:
            return multiple()
        self.latest = found
        return found

    # Each rule has the name of the method of the store that it calls.

    @rule(target=stored, known=stored, update=changes)
    def create(self, known: StoredRun, update: dict[str, Any]) -> Any:
        return self.write(self.store.create, known.snapshot.model_copy(update=update))

    @rule(target=stored)
    def create_again(self) -> Any:
        return self.write(self.store.create, self.run)

    @rule(target=stored, update=changes)
    def replace(self, update: dict[str, Any]) -> Any:
        proposed = self.latest.snapshot.model_copy(update=update)
        return self.write(self.store.replace, self.latest, proposed)

    @rule(statuses=st.lists(st.sampled_from([RunStatus.RUNNING, RunStatus.PENDING]), max_size=3))
    def replace_to_and_fro(self, statuses: list[RunStatus]) -> None:
        """Change nothing but the status: only such writes could take an uncancelled run back."""
        for status in statuses:
            proposed = self.latest.snapshot.model_copy(update={"status": status})
            self.write(self.store.replace, self.latest, proposed)
            self.each_write_keeps_the_laws()

    @rule(target=stored, known=stored, made_from=stored, update=changes)
    def replace_outdated(self, known: StoredRun, made_from: StoredRun, update: Any) -> Any:
        proposed = made_from.snapshot.model_copy(update=update)
        return self.write(self.store.replace, known, proposed)

    @rule(target=stored, made_from=stored, update=changes)
    def replace_by_outdated(self, made_from: StoredRun, update: Any) -> Any:
        proposed = made_from.snapshot.model_copy(update=update)
        return self.write(self.store.replace, self.latest, proposed)

    @rule(other=strategies.run_ids)
    def replace_by_another_run(self, other: str) -> None:
        proposed = self.latest.snapshot.model_copy(update={"run_id": other})
        self.bucket.write(self.store.replace, self.latest, proposed)
        assert self.bucket.newest(other) is None

    @rule(target=stored, update=changes)
    def change(self, update: dict[str, Any]) -> Any:
        def decide(latest: StoredRun) -> RunSnapshot:
            return latest.snapshot.model_copy(update=update)

        return self.write(self.store.change, self.run.run_id, decide)

    @rule(known=stored, is_latest=st.booleans())
    def delete(self, known: StoredRun, is_latest: bool) -> None:
        self.bucket.write(self.store.delete, self.latest if is_latest else known)

    @rule(known=stored, is_latest=st.booleans())
    def withdraw(self, known: StoredRun, is_latest: bool) -> None:
        self.bucket.write(self.store.withdraw, self.latest if is_latest else known)

    @rule(target=stored)
    def read(self) -> Any:
        return self.write(self.store.read, self.run.run_id)

    @invariant()
    def each_write_keeps_the_laws(self) -> None:
        if not hasattr(self, "run"):
            return
        now = self.bucket.newest(self.run.run_id)
        assert now is not None
        before, self.before = self.before, now
        if before is not None and now.seq == before.seq:
            return
        if now.record is None:
            assert before is not None
            assert before.record is not None
            assert before.record["status"] in ENDS or is_new(before.record)
            return
        assert now.record["run_id"] == self.run.run_id
        is_end = now.record["status"] in ENDS
        assert now.ttl == (f"{RETENTION_SEC}" if is_end else None)
        if before is None or before.record is None:
            assert is_new(now.record)
        else:
            check_follows(before.record, now.record)


def is_new(record: dict[str, Any]) -> bool:
    claimed = record["attempt"] != 0 or "worker_id" in record or "instance_id" in record
    return record["status"] == "PENDING" and not claimed and "cancel_requested_at" not in record


def check_follows(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Assert the laws for one write."""
    assert before["status"] not in ENDS, "an ended run was written"
    assert now["attempt"] >= before["attempt"], "the attempt fell"
    cancelled = [
        record["status"] == "CANCELLING" or "cancel_requested_at" in record
        for record in (before, now)
    ]
    if any(cancelled):
        assert now["status"] in ("CANCELLING", "CANCELLED"), "a recorded cancel was lost"
    else:
        assert now["status"] in FOLLOWING[before["status"]], "the status went back"
    if "cancel_requested_at" in before:
        for field in CANCEL_FIELDS:
            assert now.get(field) == before.get(field), "the first cancel was overwritten"


@pytest.mark.timeout(180)
def test_arbitrary_writes_keep_the_laws(real_bucket: RealBucket) -> None:
    machine = type("AnyWritesToOneRun", (AnyWrites,), {"bucket": real_bucket})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=100,
            stateful_step_count=20,
            deadline=None,
            # Shrinking would repeat thousands of requests; twenty steps can be read as they are.
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_every_public_method_of_the_store_is_covered() -> None:
    methods = {
        name for name, _ in inspect.getmembers(RunStore, callable) if not name.startswith("_")
    }
    sources = {
        name: inspect.getsource(getattr(AnyWrites, name))
        for name in methods - READING_METHODS
        if hasattr(AnyWrites, name)
    }
    covered = {name for name, source in sources.items() if f"(self.store.{name}" in source}
    assert covered == methods - READING_METHODS, "a writing method has no rule of its name"


@pytest.mark.parametrize(
    ("outcome", "cancelled"),
    [(RunStatus.COMPLETED, True), (RunStatus.FAILED, True), (RunStatus.COMPLETED, False)],
)
def test_the_outcome_of_a_cancelled_run_is_stored_as_its_late_outcome(
    real_bucket: RealBucket, outcome: RunStatus, cancelled: bool
) -> None:
    store = RunStore(real_bucket.broker, NAMES, retention_sec=0)
    run = snapshot()
    stored: StoredRun = real_bucket.portal.call(store.create, run)
    if cancelled:
        update = {"status": RunStatus.CANCELLING, "cancel_requested_at": 5.0}
        stored = real_bucket.write(store.replace, stored, run.model_copy(update=update))
    # The proposal was made from the record before the cancel.
    end = real_bucket.write(store.replace, stored, run.model_copy(update={"status": outcome}))
    message = real_bucket.newest(run.run_id)
    assert message is not None
    assert message.record is not None
    assert RunSnapshot.model_validate(message.record) == end.snapshot
    expected = (RunStatus.CANCELLED, outcome) if cancelled else (outcome, None)
    assert (end.snapshot.status, end.snapshot.late_outcome) == expected
