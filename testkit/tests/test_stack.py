"""A stack runs flows, restarts its parts and cleans up."""

import textwrap
from functools import partial
from pathlib import Path

import httpx
import pytest

from pyoco_testkit.eventually import eventually
from pyoco_testkit.processes import ProcessDiedError
from pyoco_testkit.stack import Stack, UnavailableError, flows_at

FLOWS = """
    from pyoco import task
    from pyoco.core.models import Flow


    @task
    def greet(name: str = "you") -> str:
        return f"hello {name}"


    def resolve(flow_name: str) -> Flow:
        if flow_name != "greeting":
            raise KeyError(flow_name)
        flow = Flow(name="greeting")
        flow >> greet
        return flow
"""


@pytest.fixture
def flows(tmp_path: Path) -> str:
    """Write a module with one flow and return its resolver."""
    path = tmp_path / "flows.py"
    path.write_text(textwrap.dedent(FLOWS), encoding="utf-8")
    return flows_at(path)


async def test_a_run_completes_in_real_processes(stack: Stack, flows: str) -> None:
    async with stack.worker(["cpu", "gpu"], flows=flows, concurrency=2) as worker:
        run_id = await stack.client.submit("greeting", "gpu", {"name": "world"})
        finished = await stack.client.wait(run_id, include=["records"])
        children = worker.children()
    assert finished["status"] == "COMPLETED", finished
    assert finished["task_records"]["greet"]["output"] == "hello world"
    assert not any(child.is_running() for child in children)


async def test_two_workers_can_run_at_once(stack: Stack, flows: str) -> None:
    async with stack.worker("a", flows=flows) as first, stack.worker("b", flows=flows) as second:
        assert first.name != second.name
        assert first.is_running
        assert second.is_running


async def test_a_killed_gateway_can_be_restarted_on_its_port(stack: Stack) -> None:
    run_id = await stack.client.submit("greeting")
    stack.gateway.kill()
    with pytest.raises(httpx.TransportError):
        await stack.client.get(run_id)
    await stack.start_gateway()
    assert await eventually(lambda: stack.client.status(run_id), "PENDING") == "PENDING"


async def test_a_gateway_can_be_started_before_its_broker(stack: Stack) -> None:
    stack.gateway.kill()
    await stack.nats.stop()
    await stack.start_gateway()
    with pytest.raises(UnavailableError):
        await stack.client.submit("greeting")
    await stack.nats.start()
    submit = partial(stack.client.submit, "greeting")
    assert await eventually(submit, bool, retry_on=(UnavailableError,))


async def test_the_error_of_a_failed_worker_start_contains_the_log(
    stack: Stack, tmp_path: Path
) -> None:
    with pytest.raises(ProcessDiedError, match=r"no_such_file\.py"):
        async with stack.worker(flows=flows_at(tmp_path / "no_such_file.py")):
            pass


async def test_a_stack_without_a_given_directory_removes_its_own() -> None:
    async with Stack() as stack:
        gateway, broker = stack.gateway, stack.nats.process
    assert not gateway.is_running
    assert not broker.is_running
    assert not stack.directory.exists()
