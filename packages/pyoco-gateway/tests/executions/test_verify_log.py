"""The whole log is checked against its hash chain."""

import json
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from pyoco_gateway.executions.log import following
from pyoco_protocol.executions.commits import chain_start, hash_of_commit
from pyoco_protocol.http.executions import LogVerification
from pyoco_protocol.jetstream.execution_log import ExecutionLog, StoredCommit
from pyoco_protocol.problems import ExecutionNotFoundError, LogTooNewError
from stored_executions import StoredExecutions, chain_of, fork_of

TENANT = "default"
SIZES = [3, 1, 4, 1, 5, 9, 2, 6]


async def verified(stored: StoredExecutions, bodies: list[bytes]) -> LogVerification:
    """Return the result for a copy of a log, as it was after an attack on the store."""
    execution_id = json.loads(bodies[0])["executionId"]
    copy = await stored.copy(execution_id, bodies)
    return await copy.reads.verify(execution_id, TENANT)


def chain() -> list[bytes]:
    return chain_of(str(uuid.uuid4()), SIZES)


def expect(bodies: list[bytes], result: LogVerification, *, bad: int) -> None:
    """Check that the log is valid up to the commit before `bad`."""
    assert not result.valid
    assert result.first_bad_commit == bad
    assert result.problem
    assert (result.commits, result.events) == (bad - 1, sum(SIZES[: bad - 1]))
    if bad == 1:
        assert result.last_hash == chain_start(json.loads(bodies[0])["executionId"])
    else:
        assert result.last_hash == hash_of_commit(bodies[bad - 2])


async def test_a_log_that_was_written_by_commands_is_valid(stored: StoredExecutions) -> None:
    execution_id = await stored.create(fork_of("a", "b"))
    await stored.work(execution_id, "a", {"rows": 7})
    await stored.work(execution_id, "b", None)
    logged = await stored.state(execution_id)
    assert await stored.reads.verify(execution_id, TENANT) == LogVerification(
        valid=True, commits=logged.n, events=logged.state.seq, last_hash=logged.last_hash
    )


async def test_a_long_log_is_read_in_batches(stored: StoredExecutions) -> None:
    execution_id = str(uuid.uuid4())
    bodies = chain_of(execution_id, [1] * 700)
    await stored.write(execution_id, bodies)
    result = await stored.reads.verify(execution_id, TENANT)
    assert (result.valid, result.commits, result.events) == (True, 700, 700)
    assert result.last_hash == hash_of_commit(bodies[-1])


class CountingLog(ExecutionLog):
    """Counts the commits that are read in batches."""

    commits = 0

    async def after(
        self, execution_id: str, stream_seq: int, *, up_to: int, batch: int = 256
    ) -> AsyncIterator[StoredCommit]:
        async for stored in super().after(execution_id, stream_seq, up_to=up_to, batch=batch):
            self.commits += 1
            yield stored


async def test_other_tasks_get_a_turn_while_a_long_log_is_read(
    stored: StoredExecutions, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = str(uuid.uuid4())
    bodies = chain_of(execution_id, [1] * 200)
    await stored.write(execution_id, bodies)
    monkeypatch.setattr(following, "_YIELD_BYTES", 3 * len(bodies[-1]))
    log = CountingLog(stored.broker, stored.names)
    seen = [0]

    async def look() -> None:
        while True:
            seen.append(log.commits)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        assert (await replace(stored.reads.verify, log=log)(execution_id, TENANT)).valid
        tasks.cancel_scope.cancel()
    # All commits come in one batch.
    assert seen[-1] >= 195
    assert max(after - before for before, after in pairwise(seen)) <= 5


@pytest.mark.parametrize("n", [1, 2, 5, 7])
async def test_an_altered_value_is_found_by_the_next_commit(
    stored: StoredExecutions, n: int
) -> None:
    bodies = chain()
    bodies[n - 1] = bodies[n - 1].replace(b'"ann"', b'"bob"')
    expect(bodies, await verified(stored, bodies), bad=n)


@pytest.mark.parametrize("n", [1, 4, 8])
async def test_every_part_of_a_commit_that_says_its_place_is_checked(
    stored: StoredExecutions, n: int
) -> None:
    def with_head(record: dict[str, Any]) -> None:
        record["head"]["seq"] += 1

    def shifted(record: dict[str, Any]) -> None:
        record["firstSeq"] += 1
        record["head"]["seq"] += 1

    changes: list[Callable[[dict[str, Any]], object]] = [
        lambda record: record.update(executionId=str(uuid.uuid4())),
        lambda record: record.update(n=record["n"] + 1),
        lambda record: record.update(firstSeq=record["firstSeq"] + 1),
        lambda record: record.update(tenantId=7),
        lambda record: record["events"][0].update(payload=7),
        lambda record: record["events"].clear(),
        with_head,
        shifted,
    ]
    for change in changes:
        bodies = chain()
        record = json.loads(bodies[n - 1])
        change(record)
        bodies[n - 1] = json.dumps(record).encode()
        whole = chain_of(json.loads(bodies[1])["executionId"], SIZES)
        execution_id = json.loads(whole[0])["executionId"]
        copy = await stored.copy(execution_id, bodies)
        expect(whole, await copy.reads.verify(execution_id, TENANT), bad=n)


@pytest.mark.parametrize("n", [2, 5, 8])
async def test_a_commit_that_names_another_hash_accuses_the_one_before_it(
    stored: StoredExecutions, n: int
) -> None:
    bodies = chain()
    record = json.loads(bodies[n - 1])
    record["prevHash"] = "0" * 64
    bodies[n - 1] = json.dumps(record).encode()
    expect(bodies, await verified(stored, bodies), bad=n - 1)


async def test_a_first_commit_that_names_another_hash_is_bad(stored: StoredExecutions) -> None:
    bodies = chain()
    record = json.loads(bodies[0])
    record["prevHash"] = "0" * 64
    bodies[0] = json.dumps(record).encode()
    expect(bodies, await verified(stored, bodies), bad=1)


@pytest.mark.parametrize("n", [1, 4, 7])
async def test_two_swapped_commits_are_found(stored: StoredExecutions, n: int) -> None:
    bodies = chain()
    whole = list(bodies)
    bodies[n - 1], bodies[n] = bodies[n], bodies[n - 1]
    expect(whole, await verified(stored, bodies), bad=n)


@pytest.mark.parametrize("n", [1, 4, 7])
async def test_a_missing_commit_is_found(stored: StoredExecutions, n: int) -> None:
    whole = chain()
    bodies = [*whole[: n - 1], *whole[n:]]
    expect(whole, await verified(stored, bodies), bad=n)


async def test_bytes_that_are_no_commit_are_found(stored: StoredExecutions) -> None:
    for n in (1, 4, 8):
        bodies = chain()
        execution_id = json.loads(bodies[0])["executionId"]
        whole = list(bodies)
        bodies[n - 1] = b"\x00 no commit"
        copy = await stored.copy(execution_id, bodies)
        expect(whole, await copy.reads.verify(execution_id, TENANT), bad=n)


@pytest.mark.parametrize(
    "newer",
    [(b'{"v":1', b'{"v":2'), (b"NODE_PROGRESS_REPORTED", b"NODE_DREAMED")],
    ids=["version", "event type"],
)
async def test_a_log_of_a_newer_version_is_not_judged(
    stored: StoredExecutions, newer: tuple[bytes, bytes]
) -> None:
    bodies = chain()
    bodies[6] = bodies[6].replace(*newer)
    with pytest.raises(LogTooNewError):
        await verified(stored, bodies)


async def test_another_tenant_cannot_verify_a_log(stored: StoredExecutions) -> None:
    execution_id = await stored.create(tenant="other")
    for reader in (stored, StoredExecutions(stored.broker)):
        with pytest.raises(ExecutionNotFoundError):
            await reader.reads.verify(execution_id, TENANT)
    assert (await stored.reads.verify(execution_id, "other")).valid
