"""A system whose broker runs as `pyoco-server-admin nats-config` has it: users, rights, TLS."""

import ssl
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from pyoco_testkit.certificates import Authority
from pyoco_testkit.environment import clean_environment, command_path
from pyoco_testkit.processes import ManagedProcess
from pyoco_testkit.stack import Stack


@dataclass(frozen=True)
class GuardedStack:
    """A stack, and the environments by which its parts log in: `gateway`, `worker-cpu`, …"""

    stack: Stack
    logins: dict[str, dict[str, str]]
    authority: Authority

    def worker(
        self, tag: str, *, env: dict[str, str] | None = None, **options: Any
    ) -> AbstractAsyncContextManager[ManagedProcess]:
        """A worker of this tag, with the login that was made for it."""
        login = self.logins[f"worker-{tag}"]
        return self.stack.worker(tag, env={**login, **(env or {})}, **options)

    def trust(self) -> ssl.SSLContext:
        """Whom a client of this broker has to trust."""
        return ssl.create_default_context(cafile=self.authority.ca)

    @asynccontextmanager
    async def client_of(self, who: str) -> AsyncGenerator[tuple[Any, list[str]]]:
        """A bare client with somebody's login, and what the server has denied it so far."""
        # Not at the top: see `Stack`.
        import nats

        denied: list[str] = []

        async def on_error(error: Exception) -> None:
            denied.append(str(error))

        login = self.logins[who]
        client = await nats.connect(
            self.stack.nats.url,
            user=login["PYOCO_NATS_USER"],
            password=login["PYOCO_NATS_PASSWORD"],
            inbox_prefix=login["PYOCO_NATS_INBOX_PREFIX"],
            tls=self.trust(),
            error_cb=on_error,
        )
        try:
            yield client, denied
        finally:
            await client.close()


@asynccontextmanager
async def guarded_stack(
    directory: Path, *arguments: str, env: dict[str, str] | None = None
) -> AsyncGenerator[GuardedStack]:
    """A broker and a gateway that run; `arguments` go to `nats-config`."""
    authority = Authority(directory / "certificates")
    shown = authority.certificate()
    config = directory / "nats-server.conf"
    done = await anyio.run_process(
        [
            *(command_path("pyoco-server-admin"), "nats-config", "--output", config),
            *("--store-dir", directory / "store"),
            *("--tls-cert", shown.cert, "--tls-key", shown.key, "--tls-ca", authority.ca),
            *arguments,
        ],
        env=clean_environment(env),
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    logins = {
        login["PYOCO_NATS_USER"].removeprefix("pyoco-"): {**(env or {}), **login}
        for login in map(_variables, done.stdout.decode().split("\n\n"))
    }
    stack = Stack(directory / "stack", env=logins["gateway"], nats_config_file=config)
    async with stack:
        yield GuardedStack(stack, logins, authority)


def _variables(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    variables = dict(line.split("=", 1) for line in lines)
    # The server listens on a port that is free, not where it was told to.
    del variables["PYOCO_NATS_URL"]
    return variables
