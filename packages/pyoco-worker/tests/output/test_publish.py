"""The output and the result of runs, with a real worker and a real broker."""

import time
from pathlib import Path

import pytest

from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from worker_bench import NAMES, WorkerBench, began, let_go_on

CAP = 1_048_576


@pytest.fixture
def flows() -> str:
    """Use the flows that print."""
    return f"{Path(__file__).parents[1] / 'flows' / 'printing_flows.py'}:resolve"


async def test_all_output_is_stored_before_the_end_of_the_run(bench: WorkerBench) -> None:
    async with bench.worker(concurrency=2):
        for run_id in [await bench.submit("talk") for _ in range(20)]:
            assert (await bench.ended(run_id)).status is RunStatus.COMPLETED
            (chunk,) = await bench.output_chunks(run_id)
            assert (chunk.run_id, chunk.attempt, chunk.n) == (run_id, 1, 0)
            assert not chunk.truncated
            assert [(entry.task, entry.text) for entry in chunk.entries] == [
                *(("talk", text) for text in ("one", "two", "three and four", "", "五")),
                ("listen", "heard"),
            ]


async def test_a_run_without_output_publishes_nothing(bench: WorkerBench) -> None:
    async with bench.worker():
        for _ in range(5):
            await bench.ended(await bench.submit("silent"))
    answer = await ask(bench.broker.client, f"$JS.API.STREAM.INFO.{NAMES.run_log_stream}")
    assert answer["state"]["last_seq"] == 0


async def test_output_is_published_while_a_run_is_active(bench: WorkerBench) -> None:
    async with bench.worker():
        waiting = bench.wait_files()
        run_id = await bench.submit("wait", **waiting)
        await eventually(
            lambda: bench.printed(run_id), lambda lines: lines[:1] == ["waiting for you"]
        )
        await eventually(lambda: bench.printed(run_id), ["waiting for you", "unfinished"])
        assert await bench.status(run_id) == RunStatus.RUNNING
        let_go_on(waiting)
        await bench.ended(run_id)
    assert await bench.printed(run_id) == ["waiting for you", "unfinished", " business"]


async def test_output_above_the_limit_is_dropped_and_delays_no_heartbeat(
    bench: WorkerBench,
) -> None:
    async with bench.worker(concurrency=2, env={"PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.1"}):
        waiting = bench.wait_files()
        beside = await bench.submit("wait", **waiting)
        await began(waiting)
        flood = await bench.submit("flood", megabytes=100)
        latest = 0.0
        while not (await bench.read(flood)).snapshot.status.is_terminal:
            latest = max(latest, time.time() - (await bench.read(beside)).snapshot.heartbeat_at)
        let_go_on(waiting)
        assert (await bench.ended(beside)).attempt == 1
        assert (await bench.ended(flood)).status is RunStatus.COMPLETED
    assert latest < 2
    chunks = await bench.output_chunks(flood)
    sizes = [len(chunk.to_bytes()) for chunk in chunks]
    assert max(sizes) <= 65_536
    assert CAP // 2 < sum(sizes) < 1.5 * CAP
    assert [chunk.n for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.truncated for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert str(CAP) in chunks[-1].entries[-1].text


async def test_the_output_of_a_run_whose_child_dies_is_stored(bench: WorkerBench) -> None:
    async with bench.worker():
        run_id = await bench.submit("die-talking", lines=3)
        ended = await bench.ended(run_id)
    assert ended.status is RunStatus.FAILED
    assert "line 2\nfamous last words" in (ended.error or "")
    assert sorted(await bench.printed(run_id)) == [
        *("famous last words", "line 0", "line 1", "line 2"),
    ]


async def test_a_limit_of_zero_stores_no_output(bench: WorkerBench) -> None:
    async with bench.worker(env={"PYOCO_RUN_LOG_MAX_BYTES": "0"}):
        talked = await bench.submit("talk")
        died = await bench.submit("die-talking")
        await bench.ended(talked)
        assert "famous last words" in ((await bench.ended(died)).error or "")
    assert await bench.output_chunks(talked) == await bench.output_chunks(died) == []


async def test_an_outage_does_not_lose_output_or_stop_the_run(
    bench: WorkerBench, nats_server: NatsServer
) -> None:
    async with bench.worker():
        waiting = bench.wait_files()
        run_id = await bench.submit("wait", **waiting)
        await began(waiting)
        nats_server.kill()
        let_go_on(waiting)
        await nats_server.restart()
        await bench.broker.wait_until_up()
        ended = await bench.ended(run_id, 30)
        await bench.settled()
    assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)
    assert "".join(await bench.printed(run_id)) == "waiting for youunfinished business"


async def test_chunks_keep_the_message_limit_of_the_broker(tmp_path: Path, flows: str) -> None:
    async with (
        NatsServer(tmp_path / "small", config="max_payload: 16384") as small,
        WorkerBench(small, tmp_path, flows) as bench,
        bench.worker(env={"PYOCO_RUN_LOG_MAX_BYTES": "100000"}),
    ):
        run_id = await bench.submit("flood", megabytes=1)
        assert (await bench.ended(run_id)).status is RunStatus.COMPLETED
        chunks = await bench.output_chunks(run_id)
    assert sum(len(chunk.to_bytes()) for chunk in chunks) > 50_000
    assert chunks[-1].truncated


async def test_the_record_of_a_run_has_its_result(bench: WorkerBench) -> None:
    async with bench.worker():
        talked = await bench.ended(await bench.submit("talk"))
        side_by_side = await bench.ended(await bench.submit("two-at-once"))
        died = await bench.ended(await bench.submit("die-talking"))
    assert (talked.result, talked.result_truncated) == ({"listen": "done"}, False)
    assert side_by_side.result == {"left": "L", "right": "R"}
    assert died.result is None
