"""API keys work with only the permissions that `nats-config` grants."""

import time
from pathlib import Path

import httpx
import pytest

from conftest import StartGateway
from guarded_broker import guarded_broker
from pyoco_gateway.access.keys import DEFAULT_SCOPES, Pepper
from pyoco_gateway.commands.admin.key_actions import issue_key, revoke_key
from pyoco_protocol.settings import HttpAuthSettings, load_settings
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

KEYS = {"PYOCO_HTTP_AUTH_MODE": "api_key", "PYOCO_AUTH_PEPPER": "p" * 32}


async def test_keys_are_issued_watched_and_revoked(
    tmp_path: Path, start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config, logins = guarded_broker(tmp_path)
    login = logins["gateway"]
    async with NatsServer(tmp_path / "nats", config_file=config) as server:
        environ = {
            "PYOCO_LOAD_DOTENV": "0",
            "PYOCO_NATS_URL": server.url,
            **login,
            **KEYS,
        }
        issued = await issue_key(
            environ,
            Pepper.of(load_settings(HttpAuthSettings, environ)),
            tenant_id="acme",
            scopes=DEFAULT_SCOPES,
            name=None,
            now=time.time(),
            expires_at=None,
        )
        async with start_gateway(server.url, wait=False, **login, **KEYS) as http:

            async def status() -> int:
                headers = {"X-API-Key": issued.key}
                return (await http.get("/runs", headers=headers)).status_code

            await eventually(status, httpx.codes.OK)
            await revoke_key(environ, issued.record.key_id, now=time.time())
            await eventually(status, httpx.codes.FORBIDDEN)
        assert "Violation" not in server.process.log()
