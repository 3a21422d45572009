"""The output and the result of runs, with a real worker and a real broker."""

import time
from pathlib import Path

import pytest

from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from worker_fixture import NAMES, WorkerFixture, began, let_go_on

CAP = 1_048_576


@pytest.fixture
def flows() -> str:
    """Use the flows that print."""
    return f"{Path(__file__).parents[1] / 'flows' / 'printing_flows.py'}:resolve"


async def test_all_output_is_stored_before_the_end_of_the_run(fixture: WorkerFixture) -> None:
    async with fixture.worker(concurrency=2):
        for run_id in [await fixture.submit("print-lines") for _ in range(20)]:
            assert (await fixture.ended(run_id)).status is RunStatus.COMPLETED
            (chunk,) = await fixture.output_chunks(run_id)
            assert (chunk.run_id, chunk.attempt, chunk.n) == (run_id, 1, 0)
            assert not chunk.truncated
            assert [(entry.task, entry.text) for entry in chunk.entries] == [
                *(("print_lines", text) for text in ("one", "two", "three and four", "", "五")),
                ("print_more", "more"),
            ]


async def test_a_run_without_output_publishes_nothing(fixture: WorkerFixture) -> None:
    async with fixture.worker():
        for _ in range(5):
            await fixture.ended(await fixture.submit("silent"))
    answer = await ask(fixture.broker.client, f"$JS.API.STREAM.INFO.{NAMES.run_log_stream}")
    assert answer["state"]["last_seq"] == 0


async def test_output_is_published_while_a_run_is_active(fixture: WorkerFixture) -> None:
    async with fixture.worker():
        waiting = fixture.wait_files()
        run_id = await fixture.submit("wait", **waiting)
        await eventually(
            lambda: fixture.printed(run_id), lambda lines: lines[:1] == ["waiting for you"]
        )
        await eventually(lambda: fixture.printed(run_id), ["waiting for you", "unfinished"])
        assert await fixture.status(run_id) == RunStatus.RUNNING
        let_go_on(waiting)
        await fixture.ended(run_id)
    assert await fixture.printed(run_id) == ["waiting for you", "unfinished", " business"]


async def test_output_above_the_limit_is_dropped_and_delays_no_heartbeat(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker(concurrency=2, env={"PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.1"}):
        waiting = fixture.wait_files()
        beside = await fixture.submit("wait", **waiting)
        await began(waiting)
        flood = await fixture.submit("flood", megabytes=100)
        latest = 0.0
        while not (await fixture.read(flood)).snapshot.status.is_terminal:
            latest = max(latest, time.time() - (await fixture.read(beside)).snapshot.heartbeat_at)
        let_go_on(waiting)
        assert (await fixture.ended(beside)).attempt == 1
        assert (await fixture.ended(flood)).status is RunStatus.COMPLETED
    assert latest < 2
    chunks = await fixture.output_chunks(flood)
    sizes = [len(chunk.to_bytes()) for chunk in chunks]
    assert max(sizes) <= 65_536
    assert CAP // 2 < sum(sizes) < 1.5 * CAP
    assert [chunk.n for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.truncated for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert str(CAP) in chunks[-1].entries[-1].text


async def test_the_output_of_a_run_whose_child_dies_is_stored(fixture: WorkerFixture) -> None:
    async with fixture.worker():
        run_id = await fixture.submit("print-and-exit", lines=3)
        ended = await fixture.ended(run_id)
    assert ended.status is RunStatus.FAILED
    assert "line 2\nlast line on stderr" in (ended.error or "")
    assert sorted(await fixture.printed(run_id)) == [
        *("last line on stderr", "line 0", "line 1", "line 2"),
    ]


async def test_a_limit_of_zero_stores_no_output(fixture: WorkerFixture) -> None:
    async with fixture.worker(env={"PYOCO_RUN_LOG_MAX_BYTES": "0"}):
        printed = await fixture.submit("print-lines")
        died = await fixture.submit("print-and-exit")
        await fixture.ended(printed)
        assert "last line on stderr" in ((await fixture.ended(died)).error or "")
    assert await fixture.output_chunks(printed) == await fixture.output_chunks(died) == []


async def test_an_outage_does_not_lose_output_or_stop_the_run(
    fixture: WorkerFixture, nats_server: NatsServer
) -> None:
    async with fixture.worker():
        waiting = fixture.wait_files()
        run_id = await fixture.submit("wait", **waiting)
        await began(waiting)
        nats_server.kill()
        let_go_on(waiting)
        await nats_server.restart()
        await fixture.broker.wait_until_up()
        ended = await fixture.ended(run_id, 30)
        await fixture.settled()
    assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)
    assert "".join(await fixture.printed(run_id)) == "waiting for youunfinished business"


async def test_chunks_keep_the_message_limit_of_the_broker(tmp_path: Path, flows: str) -> None:
    async with (
        NatsServer(tmp_path / "small", config="max_payload: 16384") as small,
        WorkerFixture(small, tmp_path, flows) as fixture,
        fixture.worker(env={"PYOCO_RUN_LOG_MAX_BYTES": "100000"}),
    ):
        run_id = await fixture.submit("flood", megabytes=1)
        assert (await fixture.ended(run_id)).status is RunStatus.COMPLETED
        chunks = await fixture.output_chunks(run_id)
    assert sum(len(chunk.to_bytes()) for chunk in chunks) > 50_000
    assert chunks[-1].truncated


async def test_the_record_of_a_run_has_its_result(fixture: WorkerFixture) -> None:
    async with fixture.worker():
        printed = await fixture.ended(await fixture.submit("print-lines"))
        side_by_side = await fixture.ended(await fixture.submit("two-at-once"))
        died = await fixture.ended(await fixture.submit("print-and-exit"))
    assert (printed.result, printed.result_truncated) == ({"print_more": "done"}, False)
    assert side_by_side.result == {"left": "L", "right": "R"}
    assert died.result is None
