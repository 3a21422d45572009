"""The nats-server of a test can be started, killed, frozen and restarted."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import nats
import psutil
import pytest
from nats.aio.client import Client

from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer, nats_server_binary


async def message_count(server: NatsServer) -> int:
    """Return the number of messages in the stream KEEP."""
    client = await nats.connect(server.url)
    try:
        info = await client.jetstream().stream_info("KEEP")
        return info.state.messages
    finally:
        await client.close()


async def publish_one(server: NatsServer) -> None:
    client = await nats.connect(server.url)
    try:
        jetstream = client.jetstream()
        await jetstream.add_stream(name="KEEP", subjects=["keep.>"])
        await jetstream.publish("keep.one", b"1")
    finally:
        await client.close()


async def test_two_servers_can_run_at_once(nats_server: NatsServer) -> None:
    async with NatsServer() as other:
        assert other.port != nats_server.port
        await publish_one(other)
        assert await message_count(other) == 1


@pytest.mark.parametrize("crash", [False, True])
async def test_a_restart_keeps_port_and_data(nats_server: NatsServer, crash: bool) -> None:
    await publish_one(nats_server)
    url, pid = nats_server.url, nats_server.process.pid
    if crash:
        nats_server.kill()
    else:
        await nats_server.stop()
    assert not nats_server.process.is_running
    await nats_server.restart()
    assert nats_server.url == url
    assert nats_server.process.pid != pid
    assert await message_count(nats_server) == 1


async def test_a_running_server_can_be_restarted(nats_server: NatsServer) -> None:
    await publish_one(nats_server)
    await nats_server.restart()
    assert await message_count(nats_server) == 1


async def test_a_paused_server_does_not_answer_until_it_resumes(nats_server: NatsServer) -> None:
    client = await nats.connect(nats_server.url)
    try:
        assert await answers(client)
        nats_server.pause()
        # Checked by the process state, not by a guess at how long silence has to last.
        process = psutil.Process(nats_server.process.pid)
        await eventually(process.status, psutil.STATUS_STOPPED)
        assert not await answers(client)
        nats_server.resume()
        await eventually(lambda: answers(client), True)
    finally:
        nats_server.resume()
        await client.close()


async def answers(client: Client) -> bool:
    """Return whether the server answers a ping within 200 ms."""
    with anyio.move_on_after(0.2) as scope:
        await client.flush()
    return not scope.cancelled_caught


async def test_the_server_uses_the_given_configuration(tmp_path: Path) -> None:
    async with NatsServer(
        tmp_path / "nats", sync_interval="always", config="max_payload: 2048"
    ) as server:
        client = await nats.connect(server.url)
        try:
            assert client.max_payload == 2048
        finally:
            await client.close()
    assert "sync_interval: always" in (tmp_path / "nats" / "nats-server.conf").read_text()


async def test_the_error_of_a_failed_start_contains_the_log() -> None:
    with pytest.raises(RuntimeError, match="unknown_word"):
        async with NatsServer(config="unknown_word: 1"):
            pass


async def test_a_server_without_a_given_directory_removes_its_own() -> None:
    async with NatsServer() as server:
        pid, directory = server.process.pid, server.directory
        assert directory.is_dir()
    assert not directory.exists()
    assert not psutil.pid_exists(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has PR_SET_PDEATHSIG")
async def test_a_server_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import anyio, os, signal, sys
        from pathlib import Path
        from pyoco_testkit.nats_server import NatsServer

        async def main() -> None:
            async with NatsServer(Path(sys.argv[1])) as server:
                print(server.process.pid, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)

        anyio.run(main)
        """
    )
    command = [sys.executable, "-c", script, str(tmp_path / "nats")]
    ended = await anyio.run_process(command, check=False)
    assert ended.returncode == -9
    pid = int(ended.stdout)
    await eventually(lambda: _has_ended(pid), True)


def _has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_the_binary_comes_from_the_test_dependencies() -> None:
    binary = nats_server_binary()
    assert os.access(binary, os.X_OK)
    printed = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    assert printed.stdout.startswith("nats-server: v2.")
