"""The SDK against a complete server."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from pyoco_client import (
    AsyncClient,
    Client,
    DeadLetterNotFoundError,
    InvalidRequestError,
    PyocoError,
    RunCancelled,
    RunFailed,
    RunNotFoundError,
    RunStatus,
    parse_metrics,
)
from pyoco_client.testing import LocalServer, LocalServerError
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack

YAML = """\
flow:
  graph: greet
tasks:
  greet:
    callable: yaml_tasks:greet
    inputs: {name: world}
"""


async def test_a_run_is_submitted_followed_and_its_result_returned(
    stack: Stack, flows: str
) -> None:
    async with stack.worker(flows=flows), AsyncClient(stack.url) as client:
        run = await client.submit("greet", {"name": "Pyoco"}, tags=["demo"])
        assert await run.result(timeout=20) == {"shout": "HELLO, PYOCO!"}
        assert (await run.tasks()).task_records["greet"].output == "Hello, Pyoco!"
        assert (await run.get("records")).worker_id == "worker-1"

        failing = await client.submit("fail")
        with pytest.raises(RunFailed, match="the shop is closed") as failed:
            await failing.result(timeout=20)
        assert failed.value.run.tasks["fail"] == "FAILED"

        long = await client.submit("nap", {"seconds": 60})
        assert (await long.cancel(wait=True, timeout=20)).status is RunStatus.CANCELLED
        with pytest.raises(RunCancelled):
            await long.result()
        await long.delete()
        with pytest.raises(RunNotFoundError):
            await long.get()


async def test_the_output_of_a_run_is_read_while_it_runs(stack: Stack, flows: str) -> None:
    async with stack.worker(flows=flows), AsyncClient(stack.url) as client:
        run = await client.submit("talk", {"lines": 3})
        followed = [line.text async for line in run.logs(follow=True)]
        assert followed == [line.text async for line in run.logs()]
        assert followed


async def in_a_thread(story: Callable[[Client], None], url: str) -> None:
    """Run `story` with the blocking client in a thread."""

    def run() -> None:
        with Client(url) as client:
            story(client)

    await anyio.to_thread.run_sync(run)


async def test_operators_see_runs_workers_queues_and_dead_letters(stack: Stack, flows: str) -> None:
    def story(client: Client) -> None:
        changes = client.runs.changes()
        runs = [client.submit("greet", {"n": n}, tag="cpu") for n in range(3)]
        waiting = client.submit("greet", tag="nobody")
        assert waiting.warnings
        for run in runs:
            run.wait(timeout=20)
        assert {each.run_id for each in changes} == {each.id for each in (*runs, waiting)}
        assert [*changes] == []
        newest_first = [each.id for each in (waiting, *reversed(runs))]
        assert [each.run_id for each in client.runs.iter()] == newest_first
        listed = client.runs.list(status=["COMPLETED"], flow="gr*", tag="cpu", limit=2)
        assert [each.status for each in listed] == ["COMPLETED"] * 2
        assert client.runs.counts(flow="greet").by_status[RunStatus.PENDING] == 1

        worker = client.workers.get("worker-1")
        assert worker.tags == ("cpu",)
        client.workers.hide("worker-1")
        assert client.workers.list() == []
        client.workers.show("worker-1")
        assert [each.worker_id for each in client.workers.list()] == ["worker-1"]
        assert {each.tag: each.pending for each in client.queues.list()}["nobody"] == 1

        failed = client.submit("fail", tag="cpu").wait(timeout=20)
        (letter,) = client.dlq.iter(run_id=failed.run_id)
        assert client.dlq.show(letter.seq).reason == "execution_error"
        assert client.dlq.redrive_all(reason="execution_error", dry_run=True).matched == 1
        again = client.dlq.redrive(letter.seq)
        assert client.run(again.new_run_id).wait(timeout=20).redriven_from == failed.run_id
        (second,) = client.dlq.list(run_id=again.new_run_id)
        client.dlq.discard(second.seq)
        with pytest.raises(DeadLetterNotFoundError):
            client.dlq.show(second.seq)

        assert client.health(verbose=True).broker is not None
        samples = {
            (each.name, *each.labels.values()): each for each in parse_metrics(client.metrics())
        }
        assert samples["pyoco_runs_total", "PENDING"].value == 1

    async with stack.worker("cpu", flows=flows):
        await in_a_thread(story, stack.url)


async def test_a_workflow_file_is_checked_and_run(stack: Stack, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(YAML, encoding="utf-8")

    def story(client: Client) -> None:
        assert client.validate_yaml(file).valid
        (problem, *_) = client.validate_yaml(b"flow: {graph: a}\n").problems
        assert problem.code == "schema.missing_key"
        with pytest.raises(InvalidRequestError) as caught:
            client.submit_yaml("flow: {}\ntasks: {}\n", flow="wrong")
        assert caught.value.problems
        run = client.submit_yaml(file, flow="挨拶", idempotency_key="file")
        assert client.submit_yaml(YAML, flow="挨拶", idempotency_key="file").id == run.id
        assert run.result(timeout=20) == {"greet": "Hello, world!"}

    flows = Path(__file__).parent / "flows"
    async with stack.worker(env={"PYTHONPATH": str(flows)}):
        await in_a_thread(story, stack.url)


async def test_changes_of_many_runs_are_yielded_as_they_happen(stack: Stack) -> None:
    async with AsyncClient(stack.url) as client:
        seen: list[tuple[str, str | None]] = []

        async def watch() -> None:
            async for change in client.runs.watch(flow="gr*"):
                seen.append((change.kind, change.run_id))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await eventually(lambda: seen, [("ready", None)])
            run = await client.submit("greet")
            await eventually(lambda: ("snapshot", run.id) in seen, True)
            await run.cancel(wait=True)
            await run.delete()
            await eventually(lambda: ("gone", run.id) in seen, True)
            tasks.cancel_scope.cancel()


async def test_messages_are_in_the_requested_language(stack: Stack) -> None:
    async with AsyncClient(stack.url, lang="ja") as client:
        with pytest.raises(PyocoError, match="runが見つかりません") as caught:
            await client.run("7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4").get()
    assert (caught.value.err_id, caught.value.status) == ("ERR-PYOCO-0005", 404)
    assert caught.value.request_id


def test_a_local_server_runs_the_flows_of_a_test(flows: str) -> None:
    with LocalServer(flows, tags=["default", "gpu"]) as server, server.client() as client:
        assert client.submit("greet", tag="gpu").result(timeout=30) == {"shout": "HELLO, WORLD!"}
        assert "worker ready" in server.logs()
        directory, url = server.directory, server.url
    assert not directory.exists()
    with Client(url, deadline=0) as client, pytest.raises(PyocoError):
        client.health()


def test_a_local_server_that_cannot_start_raises_with_the_output_of_its_worker(
    tmp_path: Path,
) -> None:
    with pytest.raises(LocalServerError, match="the worker ended"):
        LocalServer(str(tmp_path / "absent.py:resolve")).__enter__()


def test_the_pytest_fixtures_provide_a_fake_and_a_real_server(flows: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        f"""
import pytest

pytest_plugins = ["pyoco_client.testing.pytest_plugin"]


@pytest.fixture(scope="session")
def pyoco_flows():
    return {flows!r}
""",
        encoding="utf-8",
    )
    (tmp_path / "test_mine.py").write_text(
        """
def test_with_the_fake(pyoco_fake):
    pyoco_fake.on("greet", result={"greet": "Hi"})
    with pyoco_fake.client() as client:
        assert client.submit("greet").result() == {"greet": "Hi"}


def test_with_the_real_one(pyoco_client):
    assert pyoco_client.submit("greet").result(timeout=30) == {"shout": "HELLO, WORLD!"}
""",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
