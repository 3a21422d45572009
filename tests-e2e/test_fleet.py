"""Workers appear in lists, queues, metrics and run views with their true state."""

from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack

QUICK = {
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.2",
    "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "1.5",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
}


async def workers(stack: Stack, **query: Any) -> dict[str, dict[str, Any]]:
    answer = await stack.client.http.get("/workers", params={"scope": "all", **query})
    assert answer.status_code == 200, answer.text
    return {each["worker_id"]: each for each in answer.json()}


async def state_of(stack: Stack, worker_id: str) -> str | None:
    found = (await workers(stack)).get(worker_id)
    return None if found is None else str(found["state"])


async def worker_of_run(stack: Stack, run_id: str) -> tuple[Any, ...]:
    run = (await stack.client.http.get(f"/runs/{run_id}")).json()
    # Absent until the registry has the worker, which may take the run before that.
    return run["worker_id"], run.get("worker_alive"), run["worker_tags"]


async def queue(stack: Stack, tag: str) -> dict[str, Any]:
    queues = (await stack.client.http.get("/queues")).json()
    return next((each for each in queues if each["tag"] == tag), {})


async def metrics(stack: Stack) -> dict[str, dict[str, float]]:
    """Return samples by metric name and by label values, sorted by label name."""
    page = (await stack.client.http.get("/metrics")).text
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = ",".join(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


async def test_the_state_of_a_worker_is_listed_from_start_to_graceful_stop(
    tmp_path: Path, flows: str
) -> None:
    async with Stack(tmp_path / "stack", env=QUICK) as stack:
        async with stack.worker("cpu", flows=flows, worker_id="w1", concurrency=2) as worker:
            await eventually(lambda: state_of(stack, "w1"), "IDLE")
            run_id = await stack.client.submit("nap", tag="cpu", params={"seconds": 60})
            await eventually(lambda: state_of(stack, "w1"), "RUNNING")
            busy = (await workers(stack))["w1"]
            assert (busy["current_run_id"], busy["current_run_ids"]) == (run_id, [run_id])
            assert (busy["concurrency"], busy["slots_in_use"]) == (2, 1)
            assert busy["uptime_sec"] > 0
            await eventually(lambda: worker_of_run(stack, run_id), ("w1", True, ["cpu"]))
            await stack.client.cancel(run_id)
            await eventually(lambda: state_of(stack, "w1"), "IDLE")
            worker.terminate()
            assert await worker.wait() == 0
            await eventually(lambda: state_of(stack, "w1"), "STOPPED_GRACEFUL")
        assert await workers(stack, scope="active") == {}
        gone = (await workers(stack))["w1"]
    assert (gone["last_run_id"], gone["last_run_status"]) == (run_id, "CANCELLED")
    assert gone["stop_reason"] == "graceful_shutdown"


async def test_a_killed_worker_is_disconnected_and_its_run_shows_it(
    tmp_path: Path, flows: str
) -> None:
    # There is no second worker that could take the run over.
    async with (
        Stack(tmp_path / "stack", env=QUICK) as stack,
        stack.worker(flows=flows, worker_id="w1") as doomed,
    ):
        run_id = await stack.client.submit("nap", params={"seconds": 60})
        await eventually(lambda: worker_of_run(stack, run_id), ("w1", True, ["default"]))
        doomed.kill()
        await eventually(lambda: state_of(stack, "w1"), "DISCONNECTED")
        assert await worker_of_run(stack, run_id) == ("w1", False, ["default"])
        assert await stack.client.status(run_id) == "RUNNING"
        warned = await eventually(lambda: queue(stack, "default"), lambda it: it["warnings"])
    assert warned["warnings"] == ["has work, has no worker"]
    assert (warned["in_flight"], warned["workers"]) == (1, 0)


async def test_a_hidden_worker_stays_hidden_through_heartbeats_and_a_restart(
    tmp_path: Path, flows: str
) -> None:
    env = {**QUICK, "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.01"}
    async with Stack(tmp_path / "stack", env=env) as stack:
        async with stack.worker(flows=flows, worker_id="w1"):
            await eventually(lambda: state_of(stack, "w1"), "IDLE")
            for turn in range(21):
                hidden = turn % 2 == 0
                patched = await stack.client.http.patch("/workers/w1", json={"hidden": hidden})
                assert patched.status_code == 200
                seen_at = (await workers(stack, include_hidden=True))["w1"]["last_seen_at"]

                async def has_written(seen_at: float = seen_at) -> bool:
                    worker = (await workers(stack, include_hidden=True))["w1"]
                    return bool(worker["last_seen_at"] > seen_at)

                await eventually(has_written, True)
                assert (await workers(stack, include_hidden=True))["w1"]["hidden"] is hidden
        async with stack.worker(flows=flows, worker_id="w1"):

            def is_back(found: dict[str, dict[str, Any]]) -> bool:
                return "w1" in found

            active = {"include_hidden": True, "scope": "active"}
            again = await eventually(lambda: workers(stack, **active), is_back)
            assert again["w1"]["hidden"] is True
            assert await workers(stack) == {}


async def test_a_queue_without_a_worker_has_a_warning_until_a_worker_starts(
    tmp_path: Path, flows: str
) -> None:
    async with Stack(tmp_path / "stack", env=QUICK) as stack:
        body = {"flow_name": "noop", "tag": "gpu"}
        accepted = (await stack.client.http.post("/runs", json=body)).json()
        assert accepted["warnings"] == ["no worker carries tag gpu; the run waits until one does"]
        waiting = await queue(stack, "gpu")
        assert (waiting["pending"], waiting["warnings"]) == (1, ["has work, has no worker"])
        page = await metrics(stack)
        assert page["pyoco_queue_pending"] == {"gpu": 1}
        assert page["pyoco_workers_alive_total"] == {"": 0}
        async with stack.worker("gpu", flows=flows):
            await stack.client.wait(accepted["run_id"])

            def is_served(found: dict[str, Any]) -> bool:
                return (found["pending"], found["workers"], found["warnings"]) == (0, 1, [])

            await eventually(lambda: queue(stack, "gpu"), is_served)
            again = (await stack.client.http.post("/runs", json=body)).json()
            assert "warnings" not in again
            await stack.client.wait(again["run_id"])

            async def finished() -> float | None:
                found = (await metrics(stack)).get("pyoco_runs_finished_total", {})
                return found.get("noop,COMPLETED,gpu")

            await eventually(finished, 2.0)
            page = await metrics(stack)
    assert page["pyoco_runs_total"]["COMPLETED"] == 2
    assert set(page["pyoco_runs_total"]) == {
        "PENDING",
        "RUNNING",
        "CANCELLING",
        "COMPLETED",
        "FAILED",
        "CANCELLED",
    }
    assert page["pyoco_workers_alive_total"] == {"": 1}
    assert page["pyoco_dlq_messages_total"] == {"": 0}
    assert page["pyoco_run_duration_seconds_count"] == {"noop,gpu": 2}
    assert page["pyoco_run_queue_wait_seconds_count"] == {"noop,gpu": 2}
    assert page["pyoco_broker_connected"] == {"": 1}
