"""The parts behind the routes: every route gets what it asks for, and a failing part stops all."""

import ast
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import pyoco_gateway
from pyoco_gateway.app import create_app
from pyoco_gateway.http.connection import ConnectionLimits
from pyoco_gateway.http.provided import Provided
from pyoco_gateway.http.server import GatewayFailedError, bound_sockets, serving, url_of
from pyoco_gateway.metrics.page import new_registry
from pyoco_gateway.runs.reaper.loop import Reaper
from pyoco_gateway.services import Services, running
from pyoco_gateway.settings import gateway_settings
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

SOURCE = Path(pyoco_gateway.__file__).parent


def asked_for() -> Iterator[tuple[str, str]]:
    """Yield each type that the source asks for with `provided`, and the file that does."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "provided"
            ):
                yield ast.unparse(node.args[1]), str(path.relative_to(SOURCE))


def test_every_type_that_a_route_asks_for_is_provided() -> None:
    asked = list(asked_for())
    provided = {each.__name__ for each in Services.types()}

    assert len(asked) > 20
    assert [pair for pair in asked if pair[0] not in provided] == []
    assert provided == {name for name, _ in asked}


def test_no_route_reads_untyped_state() -> None:
    for path in SOURCE.rglob("*.py"):
        assert "request.state" not in path.read_text(encoding="utf-8"), path


def test_every_class_that_routes_may_ask_for_is_provided() -> None:
    # All modules with routes are imported with `create_app`.
    assert set(Provided.__subclasses__()) == set(Services.types())


def test_every_field_of_the_services_has_a_type_of_its_own() -> None:
    types = list(Services.types())
    assert len(set(types)) == len(types)
    assert all(issubclass(each, Provided) for each in types)


async def test_the_index_of_dead_letters_is_closed_when_the_gateway_stops() -> None:
    settings = gateway_settings({"PYOCO_LOAD_DOTENV": "0", "PYOCO_NATS_URL": "nats://127.0.0.1:1"})

    async with running(settings, new_registry()) as services:
        index = services.dead_letters.letters.index
        assert len(index) == 0

    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        len(index)


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
