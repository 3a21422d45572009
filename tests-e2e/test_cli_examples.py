"""Every example in the help of `pyoco-client` works."""

import io
import shlex
import sys
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import anyio
import click
import pytest

from pyoco_client import AsyncClient, AsyncExecutionHandle
from pyoco_client.cli.examples import EXECUTION_ID, RUN_ID, examples_of
from pyoco_client.cli.root import client, main
from pyoco_testkit.commands import run
from pyoco_testkit.environment import clean_environment, command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack, flows_at

FLOW_FILE: Final = """
flow:
  graph: choose_name >> greet
tasks:
  choose_name: {callable: "flows:choose_name"}
  greet: {callable: "flows:greet"}
"""
GRAPH_FILE: Final = Path(__file__).parent / "flows" / "order-intake.yaml"
CONTEXTS: Final = 'current = "local"\n[contexts.local]\nserver = "http://127.0.0.1:8000"\n'


def all_examples() -> Iterator[str]:
    """Yield each example of all commands and subcommands once."""

    def within(command: click.Command, context: click.Context) -> Iterator[str]:
        yield from examples_of(command)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                yield from within(below, click.Context(below, info_name=name, parent=context))

    yield from dict.fromkeys(within(client, click.Context(client, info_name="pyoco-client")))


def demo_flows() -> str:
    spec = find_spec("pyoco_gateway")
    assert spec is not None
    assert spec.origin is not None
    return flows_at(Path(spec.origin).parent / "commands" / "demo" / "flows.py")


@dataclass(frozen=True)
class Place:
    """A server with a worker, and ids for examples."""

    stack: Stack

    async def filled_in(self, example: str) -> str:
        """Return an example with the address and ids of this server."""
        line = example.replace("http://127.0.0.1:8000", self.stack.url)
        if RUN_ID in line:
            line = line.replace(RUN_ID, await self._run_for(line))
        if EXECUTION_ID in line:
            line = line.replace(EXECUTION_ID, await self._execution_for(line))
        if line.startswith("pyoco-client dlq ") and line.endswith(" 1"):
            line = f"{line[:-1]}{await self._letter()}"
        return line

    async def _run_for(self, line: str) -> str:
        if " cancel " in line:
            return await self.stack.client.submit("countdown", params={"seconds": 600})
        run_id = await self.stack.client.submit("hello", params={"name": "世界"})
        await self.stack.client.wait(run_id)
        return run_id

    async def _execution_for(self, line: str) -> str:
        async with AsyncClient(self.stack.url) as client:
            handle = await new_order(client)
            if any(f" {command} " in line for command in ("start", "cancel")):
                return handle.id
            await self._wait_for_payment(handle)
            if not any(f" {command} " in line for command in ("resume", "approve", "reject")):
                await self._complete(client, handle)
            return handle.id

    async def _letter(self) -> int:
        run_id = await self.stack.client.submit("broken")

        async def sequences() -> list[int]:
            answer = await self.stack.client.http.get("/dlq", params={"run_id": run_id})
            return [item["seq"] for item in answer.json()["items"]]

        return (await eventually(sequences, bool))[0]

    async def list_orders(self) -> None:
        """Store the graph, and make an execution that waits and a completed one."""
        async with AsyncClient(self.stack.url) as client:
            await client.graphs.put("order-intake", GRAPH_FILE)
            await self._wait_for_payment(await new_order(client))
            handle = await new_order(client)
            await self._wait_for_payment(handle)
            await self._complete(client, handle)

            async def completed() -> int:
                return len(await client.executions.list(status="COMPLETED"))

            await eventually(completed, bool)

    async def _wait_for_payment(self, handle: AsyncExecutionHandle) -> None:
        await handle.node("fetch").start()
        await handle.node("fetch").succeed({"lines": 3})

    async def _complete(self, client: AsyncClient, handle: AsyncExecutionHandle) -> None:
        await client.waits.approve(handle.id, "payment")
        await handle.node("ship").start()
        await handle.node("ship").succeed()


async def new_order(client: AsyncClient) -> AsyncExecutionHandle:
    return await client.executions.create("order-intake", {"orderId": 4711}, labels=["vip"])


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Place]:
    async with (
        Stack(tmp_path_factory.mktemp("examples")) as stack,
        stack.worker(flows=demo_flows(), worker_id="worker-1", concurrency=2),
    ):
        # A run that waits, so that lists of pending runs are not empty.
        await stack.client.submit("hello", tag="nobody")
        place = Place(stack)
        await place.list_orders()
        yield place


@pytest.fixture
def directory(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with the files that examples name; it is the working directory."""
    (tmp_path / "params.yaml").write_text("name: 太郎\n", encoding="utf-8")
    (tmp_path / "flow.yaml").write_text(FLOW_FILE, encoding="utf-8")
    (tmp_path / "order.yaml").write_text("orderId: 4711\n", encoding="utf-8")
    (tmp_path / GRAPH_FILE.name).write_bytes(GRAPH_FILE.read_bytes())
    (tmp_path / "contexts.toml").write_text(CONTEXTS, encoding="utf-8")
    for name, value in environment_of(place, tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def environment_of(place: Place, directory: Path) -> dict[str, str]:
    return {
        "PYOCO_SERVER": place.stack.url,
        "PYOCO_CONFIG": str(directory / "contexts.toml"),
        # A browser that does nothing.
        "BROWSER": "true",
        "PATH": f"{command_path('pyoco-client').parent}:{clean_environment()['PATH']}",
    }


@pytest.mark.parametrize("example", [line for line in all_examples() if "|" not in line])
async def test_an_example_works(
    example: str,
    place: Place,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a-key\n")))
    program, *arguments = shlex.split(await place.filled_in(example))
    assert program == "pyoco-client"
    code = await anyio.to_thread.run_sync(main, arguments)
    printed = capsys.readouterr()
    assert code == 0, printed.err
    assert printed.out or printed.err


@pytest.mark.parametrize("example", [line for line in all_examples() if "|" in line])
async def test_an_example_with_a_pipe_works(example: str, place: Place, directory: Path) -> None:
    line = await place.filled_in(example)
    done = await run(
        ["/bin/bash", "-o", "pipefail", "-c", line],
        directory=directory,
        env=environment_of(place, directory),
    )
    assert done.code == 0, done.err
    assert "Traceback" not in done.err


def test_every_command_has_an_example_with_itself() -> None:
    lines = list(all_examples())
    context = click.Context(client, info_name="pyoco-client")
    for name in client.list_commands(context):
        assert any(name in shlex.split(line) for line in lines), name
