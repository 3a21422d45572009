"""The published worker of an earlier release executes runs of the current gateway.

Authentication is on, because such a worker writes whole records: they must keep tenant and key id.
"""

import json
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from pyoco_testkit.api_key_stack import ApiKeyStack
from pyoco_testkit.commands import Done, run
from pyoco_testkit.eventually import eventually
from pyoco_testkit.processes import ManagedProcess

FLOWS: Final = Path(__file__).parent / "flows"
WORKFLOW: Final = (FLOWS / "greet.yaml").read_text(encoding="utf-8")
WHEEL_SYNC: Final = {
    "--wheel-sync-dir": "wheels",
    "--wheel-sync-interval-sec": "1",
    "--wheel-install-timeout-sec": "10",
}

# Uses the class as its documentation does, and prints the results of its methods.
BY_CLASS: Final = """
import asyncio, json, sys
from pyoco_server import NatsBackendConfig, PyocoNatsWorker
from python_flows import resolve

async def main():
    worker = await PyocoNatsWorker.connect(
        config=NatsBackendConfig(nats_url=sys.argv[1]),
        flow_resolver=resolve,
        worker_id="by-class",
        tags=["default"],
    )
    print(json.dumps([name for name in dir(worker) if not name.startswith("_")]))
    print(json.dumps([await worker.run_once(timeout=10.0), await worker.run_once(timeout=0.2)]))
    print(json.dumps(await worker.close()))

asyncio.run(main())
"""


@dataclass(frozen=True)
class Earlier:
    """The worker of the earlier release, and a current server that requires keys."""

    bin: Path
    stack: ApiKeyStack

    def command(self, *options: str) -> list[str]:
        flows = f"{FLOWS / 'python_flows.py'}:resolve"
        url = self.stack.nats.url
        return [
            *(str(self.bin / "pyoco-worker"), "--nats-url", url),
            *("--worker-id", "earlier-1", "--flow-resolver", flows, *options),
        ]

    async def work_once(self, *options: str) -> Done:
        """Let a worker execute one run and exit."""
        once = self.command("--run-once", "--poll-timeout", "10", *options)
        done = await run(
            once, env={"PYTHONPATH": str(FLOWS)}, directory=self.stack.directory, timeout=60
        )
        assert done.code == 0, done.err
        return done


@pytest.fixture
async def earlier(pytestconfig: pytest.Config, tmp_path: Path) -> AsyncGenerator[Earlier]:
    folder = Path(pytestconfig.getoption("--earlier-client")).parent
    async with ApiKeyStack(tmp_path / "stack") as stack:
        yield Earlier(folder, stack)


async def owner_of(earlier: Earlier, run_id: str) -> dict[str, Any]:
    run = await earlier.stack.client.get(run_id)
    return {name: run[name] for name in ("tenant_id", "api_key_id")}


async def test_its_class_executes_a_run_that_keeps_its_tenant_and_key(earlier: Earlier) -> None:
    client = earlier.stack.client
    run_id = await client.submit("greet", params={"name": "a"})
    before = await owner_of(earlier, run_id)
    done = await run(
        [earlier.bin / "python", "-c", BY_CLASS, earlier.stack.nats.url],
        env={"PYTHONPATH": str(FLOWS)},
    )
    assert done.code == 0, done.err
    methods, taken, closed = map(json.loads, done.out.splitlines())
    assert set(methods) == {"close", "connect", "run_once"}
    assert (taken, closed) == ([run_id, None], None)
    ended = await client.get(run_id, include=["records"])
    assert ended["status"] == "COMPLETED"
    assert ended["task_records"]["shout"]["output"] == "HELLO, A!"
    assert None not in before.values()
    assert await owner_of(earlier, run_id) == before
    assert await earlier.stack.message_count("PYOCO_WORK") == 0


async def test_its_command_executes_runs_with_every_option(earlier: Earlier) -> None:
    client = earlier.stack.client
    help_text = (await run([earlier.bin / "pyoco-worker", "--help"])).out
    offered = set(re.findall(r"^  (--[a-z-]+)", help_text, re.MULTILINE))
    common = {*earlier.command(), "--run-once", "--poll-timeout"}
    used = {*common, "--tags", "--no-wheel-sync", "--wheel-sync", *WHEEL_SYNC}
    assert offered <= used

    form = {"flow_name": "from-a-file", "tag": "gpu"}
    file = {"workflow": ("flow.yaml", WORKFLOW)}
    answer = await client.http.post("/runs/yaml", files=file, data=form)
    run_id = answer.json()["run_id"]
    before = await owner_of(earlier, run_id)
    await earlier.work_once("--tags", "cpu,gpu", "--no-wheel-sync")
    ended = await client.get(run_id)
    assert (ended["status"], ended["tasks"]) == ("COMPLETED", {"greet": "SUCCEEDED"})
    assert ended["workflow_yaml_sha256"] is not None
    assert await owner_of(earlier, run_id) == before

    # It finds no wheels, logs that, and executes the run.
    run_id = await client.submit("greet")
    sync = [word for option in WHEEL_SYNC.items() for word in option]
    done = await earlier.work_once("--wheel-sync", *sync)
    assert '"message":"wheel sync failed"' in done.out
    assert await client.status(run_id) == "COMPLETED"


async def test_its_failed_runs_are_dead_letters_of_their_tenant(earlier: Earlier) -> None:
    client = earlier.stack.client
    failed = []
    for flow in ("fail", "no-such-flow"):
        failed.append(await client.submit(flow))
        await earlier.work_once()
        assert await client.status(failed[-1]) == "FAILED"
    assert "the shop is closed" in (await client.get(failed[0]))["error"]
    assert "flow_not_found" in (await client.get(failed[1]))["error"]
    letters = (await client.http.get("/dlq")).json()["items"]
    assert {(each["run_id"], each["reason"]) for each in letters} == {
        (failed[0], "execution_error"),
        (failed[1], "flow_not_found"),
    }


async def test_a_cancel_stops_the_flow_and_the_worker_goes_on(
    earlier: Earlier, tmp_path: Path
) -> None:
    client = earlier.stack.client
    async with ManagedProcess("earlier", earlier.command(), tmp_path / "worker", {}):
        nap = await client.submit("nap", params={"seconds": 600})
        await eventually(lambda: client.status(nap), "RUNNING", 20)
        (listed,) = (await client.http.get("/workers")).json()
        assert (listed["worker_id"], listed["state"]) == ("earlier-1", "RUNNING")
        assert listed["tags"] == ["default"]

        async def cancelled() -> str:
            # The worker may overwrite a cancel that it has not read; a caller then repeats it.
            return str((await client.cancel(nap))["status"])

        await eventually(cancelled, "CANCELLED", 40)
        # The flow has ended: the worker, which executes one run at a time, takes the next one.
        following = await client.wait(await client.submit("greet"), 20)
        assert following["status"] == "COMPLETED"
    assert await client.status(nap) == "CANCELLED"
