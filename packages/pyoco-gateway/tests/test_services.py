"""What runs behind the routes: where it fails, the gateway does not pretend to be well."""

import httpx
import pytest

from pyoco_gateway.app import create_app
from pyoco_gateway.http.connection import ConnectionLimits
from pyoco_gateway.http.server import GatewayFailedError, bound_sockets, serving, url_of
from pyoco_gateway.runs.reaper.loop import Reaper
from pyoco_gateway.settings import gateway_settings
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer


async def _break(_: Reaper) -> None:
    raise ZeroDivisionError("a bug behind the routes")


async def test_a_gateway_whose_background_fails_stops_serving_and_says_so(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Reaper, "run", _break)
    settings = gateway_settings({"PYOCO_LOAD_DOTENV": "0", "PYOCO_NATS_URL": nats_server.url})

    async def answers() -> bool:
        try:
            return (await http.get("/health")).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    with bound_sockets("127.0.0.1", 0) as sockets:
        async with httpx.AsyncClient(base_url=url_of(sockets), trust_env=False) as http:
            limits = ConnectionLimits.of(settings.http)
            with pytest.raises(GatewayFailedError, match="background has failed"):
                async with serving(create_app(settings), sockets, limits):
                    await eventually(answers, False)

    assert "a bug behind the routes" in caplog.text
