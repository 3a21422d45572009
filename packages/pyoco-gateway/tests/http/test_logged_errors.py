"""Each refused and each failed request is logged with all fields of an error."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_protocol.logging.setup import LineHandler
from pyoco_protocol.settings import LogSettings
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from raw_http import raw

FIELDS = ("err_id", "msg_id", "reason", "exc_type", "exc_message", "exc_origin")


class Log:
    """The log of a gateway in this process, with and without tracebacks."""

    def __init__(self) -> None:
        self.streams = {True: io.StringIO(), False: io.StringIO()}
        self.handlers = [
            LineHandler(
                stream,
                service="pyoco-server:http",
                settings=LogSettings(log_include_traceback=include),
            )
            for include, stream in self.streams.items()
        ]

    def records(self) -> list[dict[str, Any]]:
        """Return all records of the gateway; the client of the tests logs its requests too."""
        records = [json.loads(line) for line in self.streams[True].getvalue().splitlines()]
        return [record for record in records if not record["logger"].startswith("http")]

    def errors(self, err_id: str) -> list[dict[str, Any]]:
        """Return the records with an error id."""
        return [record for record in self.records() if record.get("err_id") == err_id]


@pytest.fixture
def log() -> Iterator[Log]:
    """Yield the log of this process."""
    root = logging.getLogger()
    former = root.level
    written = Log()
    for handler in written.handlers:
        root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield written
    root.setLevel(former)
    for handler in written.handlers:
        root.removeHandler(handler)


async def test_every_refused_request_is_logged_with_all_fields_of_an_error(
    start_gateway: Any, nats_server: NatsServer, log: Log
) -> None:
    async with start_gateway(nats_server.url) as gateway:
        asked = [
            await gateway.get(f"/runs/{new_run_id()}"),
            await gateway.get("/runs", params={"limit": "many"}),
            await gateway.get("/runs", params={"cursor": "hunter2"}),
            await gateway.get("/workers", params={"scope": "hunter2"}),
            await gateway.post("/runs", json={"params": {"password": "hunter2"}}),
            await gateway.post("/runs", content=b"{hunter2"),
            await gateway.post("/runs", content=b"hunter2", headers={"Content-Type": "text/plain"}),
            await gateway.get("/no/such/path"),
            await gateway.put("/runs"),
            await gateway.get("/health", headers={"Host": "evil.example"}),
        ]
    for answer in asked:
        assert 400 <= answer.status_code < 500
        problem = answer.json()
        (record,) = (
            record
            for record in log.records()
            if record.get("request_id") == answer.headers["X-Request-Id"]
        )
        assert (record["err_id"], record["msg_id"]) == (problem["err_id"], problem["msg_id"])
        assert all(record[name] for name in FIELDS)
        assert record["exc_type"].isidentifier()
        assert "exc_traceback" not in record
    assert "hunter2" not in json.dumps(log.records())
    first = log.errors("ERR-PYOCO-0005")[-1]
    assert (first["reason"], first["exc_type"]) == ("run_not_found", "RunNotFoundError")
    assert "pyoco_gateway" in first["exc_origin"]


async def test_bytes_that_are_not_http_are_logged_with_all_fields_of_an_error(
    start_gateway: Any, nats_server: NatsServer, log: Log
) -> None:
    async with start_gateway(nats_server.url) as gateway:
        answer = await raw(gateway, b"hello\r\n\r\n")
    assert answer.status == httpx.codes.BAD_REQUEST
    (record,) = log.errors("ERR-PYOCO-0145")
    assert all(record[name] for name in FIELDS)


async def test_a_failed_request_is_logged_with_its_cause_and_its_traceback(
    start_gateway: Any, nats_server: NatsServer, log: Log
) -> None:
    async with start_gateway(nats_server.url) as gateway:
        nats_server.kill()

        async def status() -> int:
            return int((await gateway.post("/runs", json={"flow_name": "noop"})).status_code)

        await eventually(status, httpx.codes.SERVICE_UNAVAILABLE)
    records = [record for record in log.records() if record["message"] == "request failed"]
    assert records
    for record in records:
        assert all(record[name] for name in FIELDS)
        assert record["exc_traceback"].startswith("Traceback")
    assert "Traceback" in log.streams[True].getvalue()
    without = log.streams[False].getvalue()
    assert "Traceback" not in without
    assert "exc_traceback" not in without
    assert len(without.splitlines()) == len(log.streams[True].getvalue().splitlines())


async def test_a_caller_cannot_fill_the_log_with_refusals(
    start_gateway: Any, nats_server: NatsServer, log: Log
) -> None:
    async with start_gateway(nats_server.url) as gateway:
        for _ in range(600):
            await gateway.get("/no/such/path")
    assert 300 <= len(log.errors("ERR-PYOCO-0110")) < 600
