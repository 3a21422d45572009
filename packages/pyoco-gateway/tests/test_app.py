"""The application without settings: a factory for other ASGI servers."""

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

import pyoco_gateway
from pyoco_gateway.app import create_app
from pyoco_protocol.ids import new_run_id
from pyoco_protocol.problems import SettingsError
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from pyoco_testkit.processes import ManagedProcess
from pyoco_testkit.stack import free_port

FACTORY = "pyoco_gateway.app:create_app"


async def test_uvicorn_serves_the_factory_with_the_settings_of_the_environment(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--factory", FACTORY, "--port", str(port)]
    env = {
        "PYOCO_NATS_URL": nats_server.url,
        "PYOCO_DEFAULT_TAG": "from-environment",
        "PYOCO_NATS_URI": "a typing error",
    }
    base = f"http://127.0.0.1:{port}"
    async with (
        ManagedProcess("uvicorn", command, tmp_path, env) as process,
        httpx.AsyncClient(base_url=base, timeout=20, trust_env=False) as http,
    ):

        async def status(path: str) -> int:
            try:
                return (await http.get(path)).status_code
            except httpx.TransportError:
                return 0

        await eventually(lambda: status(f"/runs/{new_run_id()}"), httpx.codes.NOT_FOUND, 30)
        answer = await http.post("/runs", json={"flow_name": "hello"})
        assert answer.status_code == httpx.codes.OK, answer.text
        run = (await http.get(f"/runs/{answer.json()['run_id']}")).json()
        assert (run["status"], run["tag"]) == ("PENDING", "from-environment")
        assert (await http.get("/nowhere")).status_code == httpx.codes.NOT_FOUND
        process.terminate()
        await process.wait(20)
        # Uvicorn configures its own log first; its first lines come before the factory is called.
        records = [json.loads(line) for line in process.log().splitlines() if line.startswith("{")]
    assert {record["service"] for record in records} == {"pyoco-server:http"}
    (note,) = (record["note"] for record in records if record["message"] == "environment")
    assert "PYOCO_NATS_URI is not a setting" in note
    refused = [record for record in records if record.get("err_id") == "ERR-PYOCO-0110"]
    assert [record["exc_type"] for record in refused] == ["RouteNotFoundError"]


async def test_the_factory_without_authentication_answers_other_machines_only_for_listed_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYOCO_ALLOWED_HOSTS", "gateway.example")
    app = create_app()

    async def status(local_address: str | None, host: str) -> int:
        """Return the status of a request that arrived at a local address."""

        async def arrived(scope: Any, receive: Any, send: Any) -> None:
            server = None if local_address is None else (local_address, 8000)
            await app({**scope, "server": server}, receive, send)

        transport = httpx.ASGITransport(arrived)
        async with httpx.AsyncClient(transport=transport, base_url="http://any") as http:
            return (await http.get("/nowhere", headers={"Host": host})).status_code

    misdirected, answered = httpx.codes.MISDIRECTED_REQUEST, httpx.codes.NOT_FOUND
    for address in ("192.0.2.7", "2001:db8::7"):
        for host in ("localhost", "127.0.0.1", "[::1]:8000", "192.0.2.7", "[2001:db8::7]"):
            assert await status(address, host) == misdirected, (address, host)
        assert await status(address, "gateway.example:8000") == answered
    for local in ("127.0.0.1", "::1", None):
        assert await status(local, "localhost:8000") == answered, local
        assert await status(local, "evil.example") == misdirected, local


def test_the_factory_refuses_an_invalid_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYOCO_NATS_URL", "http://x")
    with pytest.raises(SettingsError, match="PYOCO_NATS_URL"):
        create_app()


def test_the_package_exports_configure_logging() -> None:
    from pyoco_protocol.logging.setup import configure_logging

    assert pyoco_gateway.configure_logging is configure_logging
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = pyoco_gateway.no_such_name
