"""Waits until a broker is ready."""

from typing import Final

import anyio
import nats.errors
from nats.aio.client import Client

from pyoco_gateway.processes.child_process import ChildProcess
from pyoco_protocol.jetstream.ensure import check_broker
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError, EmbeddedBrokerError
from pyoco_protocol.task_groups import plain_errors

_POLL_SEC: Final = 0.01
_CONNECT_TIMEOUT_SEC: Final = 2


async def wait_until_ready(
    process: ChildProcess, host: str, port: int, *, timeout_sec: float, log: str
) -> None:
    """Wait until the broker accepts connections and its JetStream answers.

    Raises EmbeddedBrokerError with the reason if its process exits before, or after the timeout.
    """
    with anyio.move_on_after(timeout_sec), plain_errors():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_fail_on_exit, process, log)
            await _until_connected(host, port)
            await _until_jetstream_answers(f"nats://{host}:{port}")
            tasks.cancel_scope.cancel()
        return
    raise EmbeddedBrokerError(
        f"{process.name} did not answer on {host}:{port} within {timeout_sec:g} s; see {log}"
    )


async def _fail_on_exit(process: ChildProcess, log: str) -> None:
    code = await process.wait()
    output = process.last_lines() or "no output"
    raise EmbeddedBrokerError(f"{process.name} exited with {code}: {output}; see {log}")


async def _until_connected(host: str, port: int) -> None:
    while True:
        try:
            stream = await anyio.connect_tcp(host, port)
        except OSError:
            await anyio.sleep(_POLL_SEC)
        else:
            await stream.aclose()
            return


async def _until_jetstream_answers(url: str) -> None:
    while True:
        client = Client()
        try:
            await client.connect(
                url,
                allow_reconnect=False,
                connect_timeout=_CONNECT_TIMEOUT_SEC,
                error_cb=_ignore,
            )
            await check_broker(client)
        except (nats.errors.Error, OSError, BrokerUnavailableError, RefusedError):
            await anyio.sleep(_POLL_SEC)
        else:
            return
        finally:
            with anyio.CancelScope(shield=True):
                await client.close()


async def _ignore(_: Exception) -> None:
    """Ignore the error: refused connections are expected while waiting."""
