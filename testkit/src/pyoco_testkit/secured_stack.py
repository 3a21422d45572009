"""A stack whose broker is configured by `pyoco-server-admin nats-config`: users, rights, TLS."""

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
class SecuredStack:
    """A stack, and the login variables of each user: `gateway`, `worker-cpu`, …"""

    stack: Stack
    logins: dict[str, dict[str, str]]
    authority: Authority

    def worker(
        self, tag: str, *, env: dict[str, str] | None = None, **options: Any
    ) -> AbstractAsyncContextManager[ManagedProcess]:
        """Start a worker of this tag with the login created for the tag."""
        login = self.logins[f"worker-{tag}"]
        return self.stack.worker(tag, env={**login, **(env or {})}, **options)

    def tls_context(self) -> ssl.SSLContext:
        """Return a TLS context that trusts the certificate of the broker."""
        return ssl.create_default_context(cafile=self.authority.ca)

    @asynccontextmanager
    async def client_of(self, user: str) -> AsyncGenerator[tuple[Any, list[str]]]:
        """Connect a NATS client as a user; yield it and the list of errors the server sends it."""
        # Imported here for the reason given in `Stack`.
        import nats

        denied: list[str] = []

        async def on_error(error: Exception) -> None:
            denied.append(str(error))

        login = self.logins[user]
        client = await nats.connect(
            self.stack.nats.url,
            user=login["PYOCO_NATS_USER"],
            password=login["PYOCO_NATS_PASSWORD"],
            inbox_prefix=login["PYOCO_NATS_INBOX_PREFIX"],
            tls=self.tls_context(),
            error_cb=on_error,
        )
        try:
            yield client, denied
        finally:
            await client.close()


@asynccontextmanager
async def secured_stack(
    directory: Path, *arguments: str, env: dict[str, str] | None = None
) -> AsyncGenerator[SecuredStack]:
    """Start a secured broker and a gateway; `arguments` are passed to `nats-config`."""
    authority = Authority(directory / "certificates")
    broker = authority.certificate()
    config = directory / "nats-server.conf"
    done = await anyio.run_process(
        [
            *(command_path("pyoco-server-admin"), "nats-config", "--output", config),
            *("--store-dir", directory / "store"),
            *("--tls-cert", broker.cert, "--tls-key", broker.key, "--tls-ca", authority.ca),
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
        yield SecuredStack(stack, logins, authority)


def _variables(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    variables = dict(line.split("=", 1) for line in lines)
    # The test server listens on a free port, not on the configured one.
    del variables["PYOCO_NATS_URL"]
    return variables
