"""A stack whose gateway requires API keys."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio

from pyoco_testkit.environment import clean_environment, command_path
from pyoco_testkit.processes import ManagedProcess
from pyoco_testkit.stack import Stack

API_KEY_SETTINGS: Final = {
    "PYOCO_HTTP_AUTH_MODE": "api_key",
    "PYOCO_AUTH_PEPPER": "pepper-of-the-stack-0123456789",
}


class ApiKeyStack(Stack):
    """A stack whose gateway requires API keys; its own client has a key with the admin scope."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        env: Mapping[str, str] | None = None,
        sync_interval: str | None = None,
        nats_config: str = "",
    ) -> None:
        super().__init__(
            directory,
            env={**API_KEY_SETTINGS, **(env or {})},
            sync_interval=sync_interval,
            nats_config=nats_config,
        )
        self._key: str | None = None

    async def start_gateway(self) -> ManagedProcess:
        """Start the gateway and return when it accepts runs; issue the admin key first."""
        if self._key is None:
            self._key = await self.issue_key("admin")
            self.client.http.headers["X-API-Key"] = self._key
        return await super().start_gateway()

    async def issue_key(self, *scopes: str, tenant: str = "acme") -> str:
        """Return a new key, created with `pyoco-server-admin`."""
        options = (word for scope in scopes for word in ("--scope", scope))
        return await self.admin("api-key", "create", "--tenant", tenant, *options)

    async def admin(self, *arguments: str) -> str:
        """Return the output of a `pyoco-server-admin` command."""
        done = await anyio.run_process(
            [str(command_path("pyoco-server-admin")), *arguments],
            env=clean_environment({**self.env, "PYOCO_NATS_URL": self.nats.url}),
            stderr=subprocess.PIPE,
        )
        return done.stdout.decode().strip()
