"""Keys keep working when a pepper is set later; a key never works without its own pepper."""

import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import httpx
import pytest

from key_admin import KEYED
from pyoco_testkit.environment import clean_environment
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

if TYPE_CHECKING:
    from conftest import StartGateway

WITHOUT: Final = {"PYOCO_HTTP_AUTH_MODE": "api_key"}
OTHER: Final = {**WITHOUT, "PYOCO_AUTH_PEPPER": "another-pepper-0123456789"}


async def new_key(nats_url: str, environ: dict[str, str]) -> str:
    """Return a key that `pyoco-server-admin` creates."""
    command = ["-m", "pyoco_gateway.commands.admin", "api-key", "create", "--tenant", "acme"]
    done = await anyio.run_process(
        [sys.executable, *command],
        env=clean_environment({**environ, "PYOCO_NATS_URL": nats_url}),
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


async def statuses(http: httpx.AsyncClient, *keys: str) -> list[int]:
    """Return the answers to a request with each key, once the keys are read."""

    async def status(key: str) -> int:
        return (await http.get("/runs", headers={"X-API-Key": key})).status_code

    return [await eventually(partial(status, key), lambda code: code != 503) for key in keys]


async def test_a_key_opens_every_route_of_the_spec_without_a_pepper(
    start_gateway: "StartGateway", nats_server: NatsServer
) -> None:
    key = await new_key(nats_server.url, WITHOUT)
    async with start_gateway(nats_server.url, wait=False, **WITHOUT) as http:
        assert await statuses(http, key, key[:-4] + "AAAA") == [200, 403]
        for path in ("/runs", "/workers", "/metrics"):
            answer = await http.get(path, headers={"X-API-Key": key})
            assert answer.status_code == httpx.codes.OK, path


async def test_keys_issued_with_and_without_a_pepper_work_once_the_pepper_is_set(
    start_gateway: "StartGateway", nats_server: NatsServer
) -> None:
    plain = await new_key(nats_server.url, WITHOUT)
    peppered = await new_key(nats_server.url, KEYED)
    async with start_gateway(nats_server.url, wait=False, **KEYED) as http:
        assert await statuses(http, plain, peppered, plain[:-4] + "AAAA") == [200, 200, 403]


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        (WITHOUT, "key was issued with a PYOCO_AUTH_PEPPER, which is not set; it is refused"),
        (OTHER, "key was issued with another PYOCO_AUTH_PEPPER; it is refused"),
    ],
)
async def test_a_key_whose_pepper_was_removed_or_changed_is_refused_and_logged(
    environ: dict[str, str],
    reason: str,
    start_gateway: "StartGateway",
    nats_server: NatsServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    plain = await new_key(nats_server.url, WITHOUT)
    peppered = await new_key(nats_server.url, KEYED)
    with caplog.at_level(logging.WARNING):
        async with start_gateway(nats_server.url, wait=False, **environ) as http:
            assert await statuses(http, plain, peppered) == [200, 403]
    (logged,) = [each for each in caplog.records if "PYOCO_AUTH_PEPPER" in each.getMessage()]
    assert logged.getMessage() == reason
    assert getattr(logged, "key_id", None) == peppered.split("_")[1]
