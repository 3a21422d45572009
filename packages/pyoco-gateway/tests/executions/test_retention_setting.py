"""A gateway whose retention does not fit the stream does not start, as with any wrong setting."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from conftest import Store, store_at
from pyoco_testkit.environment import command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from pyoco_testkit.processes import ManagedProcess

RETENTION = {"PYOCO_EXECUTION_RETENTION_SEC": "3600"}


@asynccontextmanager
async def server_at(
    nats: NatsServer, directory: Path, env: dict[str, str]
) -> AsyncGenerator[ManagedProcess]:
    program = str(command_path("pyoco-server"))
    command = [program, "up", "--port", "0", "--nats-url", nats.url]
    async with ManagedProcess("pyoco-server", command, directory, env) as process:
        yield process


async def until_created(process: ManagedProcess, store: Store) -> dict[str, bool]:
    """Wait for the stream of executions; return what it denies."""

    async def names() -> list[str]:
        process.check_alive()
        return [each.config.name or "" for each in await store.js.streams_info()]

    await eventually(names, lambda found: "KV_pyoco_exec_checkpoints" in found, 20)
    config = (await store.js.stream_info("PYOCO_EXECUTIONS")).config
    return {"delete": bool(config.deny_delete), "purge": bool(config.deny_purge)}


async def test_a_retention_that_is_set_later_ends_the_server_with_the_way_to_move(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    async with (
        store_at(nats_server.url) as store,
        server_at(nats_server, tmp_path / "first", {}) as first,
    ):
        assert await until_created(first, store) == {"delete": True, "purge": True}
    async with server_at(nats_server, tmp_path / "second", RETENTION) as second:
        assert await second.wait() == 1
        said = second.log()
    last = said[said.rindex("pyoco-server: ") :]
    assert last.startswith("pyoco-server: PYOCO_EXECUTION_RETENTION_SEC: needs a stream that can ")
    for words in ("nats stream backup", "nats stream restore", "[ERR-PYOCO-0108]"):
        assert words in last
    # One message, and no traceback.
    assert "Traceback" not in said


async def test_a_retention_that_is_removed_later_is_logged_and_the_server_starts(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    async with (
        store_at(nats_server.url) as store,
        server_at(nats_server, tmp_path / "first", RETENTION) as first,
    ):
        assert await until_created(first, store) == {"delete": True, "purge": False}
    async with server_at(nats_server, tmp_path / "second", {}) as second:
        await eventually(lambda: "deny_purge" in second.log(), True, 20)
        second.check_alive()
        assert "executions are available" in second.log()
