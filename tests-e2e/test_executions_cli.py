"""Executions by the command line, against a complete server."""

import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from pyoco_client import AsyncClient, AsyncExecutionHandle, AsyncTask, AsyncTaskWorker
from pyoco_client.cli.display.displayed_execution import DisplayedExecution
from pyoco_testkit.commands import Done, run
from pyoco_testkit.environment import command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack
from pyoco_testkit.terminal_session import TerminalSession

ORDER_FILE: Final = Path(__file__).parent / "flows" / "order-intake.yaml"


@pytest.fixture
async def client(stack: Stack) -> AsyncGenerator[AsyncClient]:
    async with AsyncClient(stack.url) as client:
        await client.graphs.put("order-intake", ORDER_FILE)
        yield client


@asynccontextmanager
async def working(
    client: AsyncClient, function: Any, **options: Any
) -> AsyncGenerator[AsyncTaskWorker]:
    """Run a task worker; end it with the context, whether or not it waits for tasks."""
    worker = AsyncTaskWorker(client, function, **options)
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run)
        try:
            yield worker
        finally:
            group.cancel_scope.cancel()


async def status_of(handle: AsyncExecutionHandle, node_id: str) -> str | None:
    node = (await handle.get()).node(node_id)
    return None if node is None else node.status.value


@pytest.fixture
def cli(stack: Stack, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that runs `pyoco-client` with the stack as its server."""

    async def called(*words: str, stdin: str = "") -> Done:
        environment = {"PYOCO_SERVER": stack.url, "PYOCO_CONFIG": str(tmp_path / "contexts.toml")}
        command: list[str | Path] = [command_path("pyoco-client"), *words]
        return await run(command, stdin=stdin, env=environment, directory=tmp_path)

    return called


# Some twenty processes, one after the other, also on a machine with other work.
@pytest.mark.timeout(240)
async def test_the_command_line_takes_an_order_from_its_graph_to_the_archive(
    client: AsyncClient, cli: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "bad.yaml").write_text("nodes:\n  - {id: start, type: Tusk}\nedges: []\n")
    invalid = await cli("graph", "validate", "bad.yaml", "-o", "table")
    assert invalid.code == 1
    assert "line 2: nodes[0].type: " in invalid.out
    refused = await cli("--lang", "ja", "graph", "put", "bad.yaml")
    assert refused.code == 1
    assert "graphが不正です" in refused.err
    assert "line 2: nodes[0].type: " in refused.err

    stored = await cli("graph", "put", str(ORDER_FILE))
    assert (stored.code, stored.json()["version"]) == (0, 1)
    assert stored.err == "version 1 has the same document\n"
    assert (await cli("graph", "list", "-o", "name")).out == "order-intake\n"

    created = await cli(
        *("execution", "create", "order-intake", "--input", "orderId=4711", "-o", "name")
    )
    execution_id = created.out.strip()
    async with working(client, _two_lines):
        handle = client.executions.handle(execution_id)
        await eventually(lambda: status_of(handle, "payment"), "WAITING")
        listed = await eventually(lambda: _waits(cli), bool)
        assert listed == f"{execution_id} payment\n"
        approved = await cli("execution", "approve", *listed.split(), "--payload", "amount=3")
        assert (approved.code, approved.json()["effect"]) == (0, "APPLIED")
        watched = await cli("execution", "watch", execution_id, "-o", "status", "--exit-status")
        assert watched.code == 0
        assert watched.out.splitlines()[-1].split("\t")[1:] == ["end", "COMPLETED", execution_id]
    again = await cli("execution", "approve", execution_id, "payment")
    assert again.code == 1
    assert "  reason: EXECUTION_TERMINAL (execution COMPLETED, " in again.err
    shown = await cli("execution", "get", execution_id, "--values", "-o", "table")
    assert re.search(r'RESULT +\{"ship": \{"lines": 2\}\}', shown.out)
    assert re.search(r"payment +Wait +SUCCEEDED", shown.out)
    events = await cli("execution", "events", execution_id, "--type", "NODE_RESUMED", "-o", "jsonl")
    assert json.loads(events.out)["payload"]["payload"] == {"amount": 3}
    archived = await cli("execution", "archive", "-", stdin=execution_id)
    assert [each["effect"] for each in archived.json()] == ["APPLIED"]
    await eventually(lambda: _listed(cli), "")


async def _two_lines(task: AsyncTask) -> dict[str, Any]:
    return {"lines": 2}


async def _waits(cli: Callable[..., Any]) -> str:
    return str((await cli("waits", "-o", "name")).out)


async def _listed(cli: Callable[..., Any]) -> str:
    return str((await cli("execution", "list", "-o", "name")).out)


async def test_a_terminal_shows_an_execution_until_its_end(
    stack: Stack, client: AsyncClient, tmp_path: Path
) -> None:
    handle = await client.executions.create("order-intake", {"orderId": 4711})
    environment = {"PYOCO_SERVER": stack.url, "PYOCO_CONFIG": str(tmp_path / "contexts.toml")}
    words = [str(command_path("pyoco-client")), "execution", "watch", handle.id, "--exit-status"]
    async with TerminalSession(words, columns=80, env=environment) as session:
        await session.shows("fetch    READY", 30)
        await handle.node("fetch").start(attempt=1)
        await handle.node("fetch").progress(40, "挨拶\x1b[2J")
        await session.shows("[====      ] 40%  挨拶\\u001b[2J")
        await handle.node("fetch").succeed({"lines": 3})
        await session.shows("key order-4711")
        await client.waits.reject(handle.id, "payment", "not in stock")
        assert await session.ended(30) == 1
        rows = session.screen.rows
        assert rows[0].startswith("✗ order-intake v1  FAILED  ")
        assert any("REJECTED: not in stock" in row for row in rows)
        told = "".join(rows[-2:])
        assert told == f"execution {handle.id} ended FAILED: node payment: REJECTED: not in stock"
        assert session.is_as_found


@pytest.mark.parametrize("of", ["execution", "run"])
async def test_a_live_view_says_while_the_broker_or_the_gateway_is_away(
    stack: Stack, client: AsyncClient, tmp_path: Path, of: str
) -> None:
    if of == "run":
        words, status = ["watch", await stack.client.submit("hello", tag="none")], "PENDING"
    else:
        handle = await client.executions.create("order-intake", {"orderId": 4711})
        words, status = ["execution", "watch", handle.id], "ACTIVE"
    environment = {"PYOCO_SERVER": stack.url, "PYOCO_CONFIG": str(tmp_path / "contexts.toml")}
    command = [str(command_path("pyoco-client")), *words]

    async with TerminalSession(command, columns=80, env=environment) as session:

        def is_told() -> bool:
            return any("no news for" in row for row in session.screen.rows)

        await session.shows(status, 30)
        stack.nats.kill()
        await session.shows("NATS is not available: no news for", 30)
        await stack.nats.start()
        await eventually(is_told, False, 30)
        stack.gateway.kill()
        await session.shows("connection lost: no news for", 30)
        await stack.start_gateway()
        await eventually(is_told, False, 30)


@pytest.mark.parametrize("outcome", ["completed", "failed", "canceled"])
async def test_the_events_lead_the_display_to_the_state_of_the_gateway(
    client: AsyncClient, outcome: str
) -> None:
    async def work(task: AsyncTask) -> dict[str, Any]:
        return {"lines": 0 if outcome == "failed" else 2}

    shown: DisplayedExecution | None = None
    handle = await client.executions.create("order-intake", {"orderId": 1}, start=False)
    async with working(client, work):
        async for change in handle.watch():
            if change.execution is not None:
                shown = DisplayedExecution.of(change.execution)
                await handle.start()
            if change.event is not None:
                assert shown is not None
                shown = shown.after(change.event)
                if change.event.type == "NODE_WAITING":
                    decide = handle.cancel() if outcome == "canceled" else None
                    await (decide or client.waits.approve(handle.id, "payment"))
    assert shown is not None
    expected = DisplayedExecution.of(await handle.get())
    assert shown.status == outcome.upper()
    assert (shown.status, shown.phase, shown.ended_at) == (
        expected.status,
        "",
        expected.ended_at,
    )
    states = {name: (node.state, node.note) for name, node in shown.nodes.items()}
    assert states == {name: (node.state, node.note) for name, node in expected.nodes.items()}
