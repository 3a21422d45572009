"""Commits are found by an event or by their number, without reading the log."""

import math
import uuid
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyoco_gateway.executions.log import locate
from pyoco_gateway.executions.log.following import Place
from pyoco_gateway.executions.log.locate import LocateCommit
from pyoco_protocol.executions.commits import commit_from
from pyoco_protocol.jetstream.execution_log import ExecutionLog, StoredCommit
from pyoco_protocol.problems import LogCorruptError
from stored_executions import StoredExecutions, chain_of


async def last_of(stored: StoredExecutions, execution_id: str) -> StoredCommit:
    last = await stored.log.last(execution_id)
    assert last is not None
    return last


class CountingLog(ExecutionLog):
    """Counts the reads from the leader, and the commits that come in batches."""

    reads = 0
    in_batches = 0

    async def next(self, execution_id: str, stream_seq: int) -> StoredCommit | None:
        self.reads += 1
        return await super().next(execution_id, stream_seq)

    async def after(
        self, execution_id: str, stream_seq: int, *, up_to: int, batch: int = 256
    ) -> AsyncIterator[StoredCommit]:
        async for stored in super().after(execution_id, stream_seq, up_to=up_to, batch=batch):
            self.in_batches += 1
            yield stored


@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=60),
    others=st.integers(0, 40),
    few=st.sampled_from([1, 2, 5, 64]),
)
async def test_locating_agrees_with_a_linear_scan(
    stored: StoredExecutions, sizes: list[int], others: int, few: int
) -> None:
    execution_id, other = str(uuid.uuid4()), str(uuid.uuid4())
    bodies = chain_of(execution_id, sizes)
    half = len(bodies) // 2
    if half:
        await stored.write(execution_id, bodies[:half])
    if others:
        await stored.write(other, chain_of(other, [1] * others))
    await stored.write(execution_id, bodies[half:])

    located = LocateCommit(stored.log)
    last = await last_of(stored, execution_id)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locate, "_FEW", few)
        for n, body in enumerate(bodies, start=1):
            found = await located.numbered(last, n)
            assert found is not None
            assert found.body == body
            record = commit_from(body)
            for seq in {record.first_seq, record.last_seq}:
                place = await located.before_event(last, seq)
                assert (place.n, place.seq) == (n - 1, record.first_seq - 1)
                assert place.last_hash == record.prev_hash
                following = await stored.log.next(execution_id, place.stream_seq)
                assert following is not None
                assert following.body == body
        assert await located.numbered(last, len(bodies) + 1) is None
        with pytest.raises(LogCorruptError):
            await located.before_event(last, sum(sizes) + 1)


async def test_the_number_of_reads_grows_with_the_logarithm_of_the_log(
    stored: StoredExecutions,
) -> None:
    execution_id = str(uuid.uuid4())
    commits = 3000
    await stored.write(execution_id, chain_of(execution_id, [2] * commits))
    last = await last_of(stored, execution_id)
    log = CountingLog(stored.broker, stored.names)
    for n in (2, 777, 1500, 2999):
        log.reads = log.in_batches = 0
        found = await LocateCommit(log).numbered(last, n)
        assert found is not None
        assert commit_from(found.body).n == n
        place = await LocateCommit(log).before_event(last, 2 * n)
        assert place.n == n - 1
        assert log.reads <= 2 * (math.log2(commits) + 2)
        assert log.in_batches <= 2 * 64


async def test_the_first_and_the_last_commit_need_no_search(stored: StoredExecutions) -> None:
    execution_id = str(uuid.uuid4())
    await stored.write(execution_id, chain_of(execution_id, [1] * 300))
    last = await last_of(stored, execution_id)
    log = CountingLog(stored.broker, stored.names)
    assert await LocateCommit(log).numbered(last, 300) == last
    assert await LocateCommit(log).before_event(last, 1) == Place.start(execution_id)
    assert log.reads == 0


@pytest.mark.parametrize("few", [1, 64])
@pytest.mark.parametrize("damaged", [1, 2, 100, 199, 200])
async def test_a_damaged_commit_is_found_by_those_around_it(
    stored: StoredExecutions, monkeypatch: pytest.MonkeyPatch, damaged: int, few: int
) -> None:
    monkeypatch.setattr(locate, "_FEW", few)
    execution_id = str(uuid.uuid4())
    bodies = chain_of(execution_id, [1] * 200)
    bodies[damaged - 1] = b"\x00 no commit"
    await stored.write(execution_id, bodies)
    last = await last_of(stored, execution_id)
    located = LocateCommit(stored.log)
    for n in {1, 2, damaged - 1 or 1, damaged, min(damaged + 1, 200), 200}:
        found = await located.numbered(last, n)
        assert found is not None
        assert found.body == bodies[n - 1]
    if damaged not in (1, 200):
        with pytest.raises(LogCorruptError):
            await located.before_event(last, damaged)


@pytest.mark.parametrize("few", [1, 64])
async def test_damaged_commits_are_told_apart(
    stored: StoredExecutions, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(locate, "_FEW", few)
    execution_id = str(uuid.uuid4())
    bodies = chain_of(execution_id, [1] * 200)
    damaged = (50, 51, 53, 120, 199, 200)
    for n in damaged:
        bodies[n - 1] = f"no commit {n}".encode()
    await stored.write(execution_id, bodies)
    last = await last_of(stored, execution_id)
    for n in (1, 49, *damaged, 52, 54, 198):
        found = await LocateCommit(stored.log).numbered(last, n)
        assert found is not None
        assert found.body == bodies[n - 1]
    assert await LocateCommit(stored.log).numbered(last, 201) is None


async def test_a_missing_commit_is_not_another_one(stored: StoredExecutions) -> None:
    execution_id = str(uuid.uuid4())
    bodies = chain_of(execution_id, [1] * 200)
    await stored.write(execution_id, [*bodies[:99], *bodies[100:]])
    last = await last_of(stored, execution_id)
    located = LocateCommit(stored.log)
    assert await located.numbered(last, 100) is None
    with pytest.raises(LogCorruptError):
        await located.before_event(last, 100)
    found = await located.numbered(last, 101)
    assert found is not None
    assert found.body == bodies[100]
