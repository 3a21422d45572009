"""Concurrent and failing submissions with one idempotency key."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from pyoco_gateway.access.caller import DEFAULT_TENANT, UNRESTRICTED, Caller
from pyoco_gateway.runs.job_queue import JobQueue
from pyoco_gateway.runs.submit import IdempotencyKey, SubmitRun, Submitted
from pyoco_protocol.http.runs import RunSubmission
from pyoco_protocol.ids import is_run_id
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError, UnknownOutcomeError
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.problems import (
    BrokerUnavailableError,
    IdempotencyKeyReusedError,
    PyocoError,
    SubmitOutcomeUnknownError,
)
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.subjects import Names

NAMES = Names()
SUBMISSION = RunSubmission(flow_name="hello", params={"b": 1, "a": [1.5, None]})
KEY = IdempotencyKey.of("order-7", SUBMISSION, UNRESTRICTED)

Before = Callable[[], Awaitable[None]]


class TroubledQueue(JobQueue):
    """The real queue, with calls of the test before chosen publishes."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker, NAMES)
        self.before: list[Before] = []

    async def publish(self, message_id: str, tag: str, job: bytes) -> None:
        if self.before:
            await self.before.pop(0)()
        await super().publish(message_id, tag, job)


@pytest.fixture
def runs(broker: Broker) -> RunStore:
    return RunStore(broker, NAMES, retention_sec=0)


@pytest.fixture
def one(broker: Broker, runs: RunStore) -> SubmitRun:
    return gateway(broker, runs)


@pytest.fixture
def other(broker: Broker, runs: RunStore) -> SubmitRun:
    return gateway(broker, runs)


def gateway(broker: Broker, runs: RunStore) -> SubmitRun:
    return SubmitRun(runs, TroubledQueue(broker), default_tag="default", max_params_bytes=100_000)


def tenant(name: str) -> Caller:
    return Caller(tenant_id=name, key_id=f"key of {name}", scopes=frozenset())


def trouble_in(submit_run: SubmitRun) -> list[Before]:
    assert isinstance(submit_run.queue, TroubledQueue)
    return submit_run.queue.before


async def refused() -> None:
    raise RefusedError(503, 10077, "maximum messages exceeded")


async def unanswered() -> None:
    raise UnknownOutcomeError("no answer")


async def jobs(broker: Broker) -> int:
    return int((await broker.client.jetstream().stream_info(NAMES.work_stream)).state.messages)


async def revision_of(runs: RunStore, run_id: str) -> int:
    stored = await runs.read(run_id)
    assert stored is not None
    return stored.revision


def test_a_key_identifies_one_run_and_one_request() -> None:
    same = RunSubmission(flow_name="hello", params={"a": [1.5, None], "b": 1})
    assert IdempotencyKey.of("order-7", same, UNRESTRICTED) == KEY
    assert is_run_id(KEY.run_id)
    for changed in (
        {"flow_name": "bye", "params": SUBMISSION.params},
        {"flow_name": "hello", "params": {"b": 2, "a": [1.5, None]}},
        {"flow_name": "hello", "params": SUBMISSION.params, "tag": "gpu"},
        {"flow_name": "hello", "params": SUBMISSION.params, "tags": ["x"]},
    ):
        other = IdempotencyKey.of("order-7", RunSubmission.model_validate(changed), UNRESTRICTED)
        assert other.run_id == KEY.run_id
        assert other.request_hash != KEY.request_hash
    assert IdempotencyKey.of("order-8", SUBMISSION, UNRESTRICTED).run_id != KEY.run_id
    assert IdempotencyKey.of("order-7", SUBMISSION, tenant("acme")).run_id != KEY.run_id


def test_keys_from_before_tenants_belong_to_the_default_tenant() -> None:
    """Otherwise a repeat after authentication was turned on would be a second run."""
    assert IdempotencyKey.of("order-7", SUBMISSION, tenant(DEFAULT_TENANT)) == KEY


async def test_a_repeat_is_the_same_run_and_the_same_job(
    broker: Broker, runs: RunStore, one: SubmitRun, other: SubmitRun
) -> None:
    first = await one(SUBMISSION, UNRESTRICTED, key=KEY)
    again = await one(SUBMISSION, UNRESTRICTED, key=KEY)
    elsewhere = await other(SUBMISSION, UNRESTRICTED, key=KEY)
    assert [each.replayed for each in (first, again, elsewhere)] == [False, True, True]
    assert {each.run.run_id for each in (first, again, elsewhere)} == {KEY.run_id}
    assert await jobs(broker) == 1


async def test_the_job_names_tenant_and_key_of_its_submission(one: SubmitRun, store: Any) -> None:
    await one(SUBMISSION, tenant("acme"))
    (job,) = await store.jobs()
    assert job.body.get("tenant_id") == "acme"
    assert job.body.get("api_key_id") == "key of acme"


@pytest.mark.parametrize("status", [status for status in RunStatus if status != "PENDING"])
async def test_a_repeat_leaves_a_claimed_or_ended_run_unchanged(
    broker: Broker, runs: RunStore, one: SubmitRun, other: SubmitRun, status: RunStatus
) -> None:
    await one(SUBMISSION, UNRESTRICTED, key=KEY)
    await runs.change(KEY.run_id, lambda it: it.snapshot.model_copy(update={"status": status}))
    revision = await revision_of(runs, KEY.run_id)
    await broker.client.jetstream().purge_stream(NAMES.work_stream)
    again = await other(SUBMISSION, UNRESTRICTED, key=KEY)
    # The answer is the one that the first submission got.
    assert (again.replayed, again.run.status) == (True, RunStatus.PENDING)
    assert await revision_of(runs, KEY.run_id) == revision
    assert await jobs(broker) == 0
    assert not other.unconfirmed


async def test_another_request_under_a_used_key_changes_nothing(
    broker: Broker, runs: RunStore, one: SubmitRun, other: SubmitRun
) -> None:
    await one(SUBMISSION, UNRESTRICTED, key=KEY)
    revision = await revision_of(runs, KEY.run_id)
    changed = RunSubmission(flow_name="bye")
    for each in (one, other):
        with pytest.raises(IdempotencyKeyReusedError):
            await each(
                changed, UNRESTRICTED, key=IdempotencyKey.of("order-7", changed, UNRESTRICTED)
            )
        assert not each.unconfirmed
    assert await revision_of(runs, KEY.run_id) == revision
    assert await jobs(broker) == 1


async def test_a_run_of_the_same_id_without_a_key_is_another_request(
    runs: RunStore, one: SubmitRun
) -> None:
    accepted = await one(SUBMISSION, UNRESTRICTED)
    with pytest.raises(IdempotencyKeyReusedError):
        await one(
            SUBMISSION, UNRESTRICTED, key=IdempotencyKey(accepted.run.run_id, KEY.request_hash)
        )


async def test_concurrent_submissions_are_one_run(
    broker: Broker, one: SubmitRun, other: SubmitRun
) -> None:
    answers: list[Submitted] = []

    async def submit(through: SubmitRun) -> None:
        answers.append(await through(SUBMISSION, UNRESTRICTED, key=KEY))

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(submit, one if number % 2 else other)
    assert {each.run.run_id for each in answers} == {KEY.run_id}
    assert [each.replayed for each in answers].count(False) == 1
    assert await jobs(broker) == 1
    assert not one.unconfirmed | other.unconfirmed


async def test_a_failure_withdraws_no_run_that_another_request_was_answered_with(
    broker: Broker, runs: RunStore, one: SubmitRun, other: SubmitRun
) -> None:
    answered: list[Submitted] = []

    async def another_comes_then_no() -> None:
        answered.append(await other(SUBMISSION, UNRESTRICTED, key=KEY))
        await refused()

    trouble_in(one).append(another_comes_then_no)
    with pytest.raises(SubmitOutcomeUnknownError):
        await one(SUBMISSION, UNRESTRICTED, key=KEY)
    assert answered[0].replayed
    stored = await runs.read(KEY.run_id)
    assert stored is not None
    assert stored.snapshot.status is RunStatus.PENDING
    assert await jobs(broker) == 1


async def test_a_submission_after_a_withdrawal_creates_the_run_again(
    broker: Broker, runs: RunStore, one: SubmitRun, other: SubmitRun
) -> None:
    trouble_in(one).append(refused)
    with pytest.raises(BrokerUnavailableError):
        await one(SUBMISSION, UNRESTRICTED, key=KEY)
    assert await runs.read(KEY.run_id) is None
    assert not one.unconfirmed
    again = await other(SUBMISSION, UNRESTRICTED, key=KEY)
    assert not again.replayed
    assert await jobs(broker) == 1


async def test_a_run_withdrawn_during_a_repeat_is_created_by_the_repeat(
    broker: Broker, runs: RunStore, one: SubmitRun, other: SubmitRun
) -> None:
    """The repeat reads the record, which is gone before the repeat writes it."""
    answered: list[Submitted] = []

    async def another_comes_meanwhile() -> None:
        real_read = other.store.read

        async def read_and_be_overtaken(run_id: str) -> object:
            found = await real_read(run_id)
            if found is not None and not answered:
                await runs.withdraw(found)
            other.store.read = real_read  # type: ignore[method-assign] # once
            return found

        other.store.read = read_and_be_overtaken  # type: ignore[method-assign,assignment] # ditto
        answered.append(await other(SUBMISSION, UNRESTRICTED, key=KEY))
        await refused()

    trouble_in(one).append(another_comes_meanwhile)
    with pytest.raises(SubmitOutcomeUnknownError):
        await one(SUBMISSION, UNRESTRICTED, key=KEY)
    assert not answered[0].replayed
    assert await runs.read(KEY.run_id) is not None
    assert await jobs(broker) == 1


@pytest.mark.parametrize("trouble", [refused, unanswered])
async def test_a_repeat_that_fails_to_queue_the_run_leaves_it_to_the_reaper(
    broker: Broker, runs: RunStore, one: SubmitRun, other: SubmitRun, trouble: Before
) -> None:
    """The first gateway stored the record and no job; the second one fails to queue it."""
    trouble_in(one).append(unanswered)
    with pytest.raises(SubmitOutcomeUnknownError):
        await one(SUBMISSION, UNRESTRICTED, key=KEY)
    trouble_in(other).append(trouble)
    with pytest.raises(PyocoError):
        await other(SUBMISSION, UNRESTRICTED, key=KEY)
    stored = await runs.read(KEY.run_id)
    assert stored is not None
    # No gateway has confirmed the job, and the record does not say that it was queued again.
    assert not one.is_confirmed(stored.snapshot)
    assert not other.is_confirmed(stored.snapshot)
    assert stored.snapshot.queued_again_at is None
    assert await jobs(broker) == 0
    # The third submission queues it.
    assert (await one(SUBMISSION, UNRESTRICTED, key=KEY)).replayed
    assert await jobs(broker) == 1


async def test_a_failed_repeat_does_not_confirm_the_first_submission(
    runs: RunStore, one: SubmitRun
) -> None:
    """A second submission with the same key fails while the first waits for its answer."""

    async def another_fails_meanwhile() -> None:
        changed = RunSubmission(flow_name="bye")
        with pytest.raises(IdempotencyKeyReusedError):
            await one(
                changed, UNRESTRICTED, key=IdempotencyKey.of("order-7", changed, UNRESTRICTED)
            )
        await unanswered()

    trouble_in(one).append(another_fails_meanwhile)
    with pytest.raises(SubmitOutcomeUnknownError):
        await one(SUBMISSION, UNRESTRICTED, key=KEY)
    stored = await runs.read(KEY.run_id)
    assert stored is not None
    assert not one.is_confirmed(stored.snapshot)


async def test_only_the_gateway_that_queued_a_run_confirms_it(
    runs: RunStore, one: SubmitRun, other: SubmitRun
) -> None:
    accepted = await one(SUBMISSION, UNRESTRICTED)
    stored = await runs.read(accepted.run.run_id)
    assert stored is not None
    assert one.is_confirmed(stored.snapshot)
    assert not other.is_confirmed(stored.snapshot)


async def test_a_publish_without_an_answer_is_not_confirmed(runs: RunStore, one: SubmitRun) -> None:
    trouble_in(one).append(unanswered)
    with pytest.raises(SubmitOutcomeUnknownError) as unknown:
        await one(SUBMISSION, UNRESTRICTED)
    stored = await runs.read(str(unknown.value.extra["run_id"]))
    assert stored is not None
    assert not one.is_confirmed(stored.snapshot)
