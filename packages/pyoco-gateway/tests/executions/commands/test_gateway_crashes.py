"""A gateway that is killed between the decision of a command and its answer."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from executions.commands.command_client import Commands, commits_of, serves_executions
from pyoco_protocol.failpoints import Failpoint
from pyoco_testkit.environment import command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.graph_documents import JsonObject
from pyoco_testkit.nats_server import NatsServer
from pyoco_testkit.processes import ManagedProcess
from pyoco_testkit.stack import free_port

if TYPE_CHECKING:
    from conftest import Store

PLACES = {
    "decided": (Failpoint.COMMAND_DECIDED, False),
    "committed": (Failpoint.COMMAND_COMMITTED, True),
}
Crash = Callable[[Failpoint, str, JsonObject], Awaitable[None]]


@pytest.fixture
def crash(nats_server: NatsServer, tmp_path: Path) -> Crash:
    """Give a function that sends a request to a gateway which is killed at a failpoint."""

    async def crash(place: Failpoint, path: str, body: JsonObject) -> None:
        port = free_port()
        command = [
            *(str(command_path("pyoco-server")), "up", "--nats-url", nats_server.url),
            *("--host", "127.0.0.1", "--port", str(port)),
        ]
        env = {"PYOCO_FAILPOINT": f"{place}:kill"}
        async with (
            ManagedProcess("gateway", command, tmp_path / "gateway", env) as process,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http,
        ):
            await eventually(lambda: answers(http), True, 30)
            doomed = await serves_executions(Commands(http))
            with pytest.raises(httpx.TransportError):
                await doomed.post(path, body, "k")
            assert await process.wait() == -9

    return crash


async def answers(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/health")).is_success
    except httpx.TransportError:
        return False


@pytest.mark.parametrize(("place", "is_stored"), PLACES.values(), ids=PLACES.keys())
async def test_a_repeat_settles_a_command_whose_gateway_was_killed(
    commands: Commands, crash: Crash, store: "Store", place: Failpoint, is_stored: bool
) -> None:
    """The repeat is the first request if nothing was stored, and else gets its answer."""
    request: tuple[str, JsonObject] = (
        f"{await commands.created()}/nodes/t/start",
        {"workerId": "w"},
    )
    await crash(place, *request)
    await settled(commands, store, request, is_stored=is_stored)


@pytest.mark.parametrize(("place", "is_stored"), PLACES.values(), ids=PLACES.keys())
async def test_a_repeat_settles_a_creation_whose_gateway_was_killed(
    commands: Commands, crash: Crash, store: "Store", place: Failpoint, is_stored: bool
) -> None:
    await commands.put_graph()
    request: tuple[str, JsonObject] = ("/executions", {"graphId": "g", "start": True})
    await crash(place, *request)
    await settled(commands, store, request, is_stored=is_stored)


async def settled(
    commands: Commands, store: "Store", request: tuple[str, JsonObject], *, is_stored: bool
) -> None:
    """Send a request twice more: it has one effect, and the first answer stays."""
    first = await commands.post(*request, "k")
    again = await commands.post(*request, "k")
    assert [first.status_code, again.status_code] == ([200, 200] if is_stored else [202, 200])
    assert first.content == again.content
    path = f"/executions/{first.json()['executionId']}"
    stored = [
        each["answer"]["body"]
        for each in await commits_of(store, path)
        if each["command"].get("idempotencyKey") == "k"
    ]
    assert stored == [first.json()]
