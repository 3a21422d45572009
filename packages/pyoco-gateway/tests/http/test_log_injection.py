"""Text from callers neither splits log lines nor reaches a terminal as control characters."""

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any, Literal

import httpx
import pytest

from pyoco_protocol.logging.setup import LineHandler
from pyoco_protocol.settings import LogSettings
from pyoco_testkit.nats_server import NatsServer
from raw_http import raw

# All Unicode line ends, the start of a colour sequence, the end of a string, and marks that
# change the direction of text.
INJECTION = (
    "x\r\n"
    '{"level":"CRITICAL","message":"forged"}\n'
    "\x1b[2J\x1b]0;title\x07\x00\x08\x85\u2028\u2029\u202e\x9b31m"
)
STEERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202e]")
RECORD = re.compile(r"\d{4}-\d\d-\d\dT\S+Z (DEBUG|INFO|WARNING|ERROR) +pyoco-server:http ")


@pytest.fixture
def written() -> Iterator[dict[str, io.StringIO]]:
    """Yield the log in both formats, at the lowest level."""
    root = logging.getLogger()
    former = root.level
    streams = {name: io.StringIO() for name in ("json", "text")}
    formats: tuple[Literal["json", "text"], ...] = ("json", "text")
    handlers = [
        LineHandler(
            streams[name],
            service="pyoco-server:http",
            settings=LogSettings(log_format=name, log_level="DEBUG"),
        )
        for name in formats
    ]
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield streams
    root.setLevel(former)
    for handler in handlers:
        root.removeHandler(handler)


async def test_each_log_record_stays_one_line(
    start_gateway: Any, nats_server: NatsServer, written: dict[str, io.StringIO]
) -> None:
    async with start_gateway(nats_server.url) as gateway:
        await write_everywhere(gateway)

    lines = written["json"].getvalue().removesuffix("\n").split("\n")
    records = [json.loads(line) for line in lines]
    texts = written["text"].getvalue().removesuffix("\n").split("\n")
    assert len(records) == len(texts) > 10
    assert not [line for line in (*lines, *texts) if STEERS.search(line) or "forged\n" in line]
    assert not [text for text in texts if not RECORD.match(text)]
    assert {record["service"] for record in records} == {"pyoco-server:http"}
    assert "CRITICAL" not in {record["level"] for record in records}
    # The injected text did reach the log.
    assert [record for record in records if "forged" in json.dumps(record)]


async def write_everywhere(gateway: httpx.AsyncClient) -> None:
    """Send the injection in every place where a caller can send text."""
    json_type = {"Content-Type": "application/json"}
    as_path = "/" + "".join(f"%{byte:02x}" for byte in INJECTION.encode())
    for method in ("GET", "POST", "PUT"):
        for path in (as_path, f"/runs{as_path}", f"/runs{as_path}/cancel", f"/dlq{as_path}"):
            await gateway.request(method, path)
    await gateway.get("/runs", params={"status": INJECTION, INJECTION: "x"})
    bodies: list[Any] = [
        {"flow_name": INJECTION},
        {"flow_name": "f", "tag": INJECTION},
        {"flow_name": "f", INJECTION: 1},
        {"flow_name": "f", "params": {INJECTION: INJECTION}},
        {"flow_name": "f", "params": {INJECTION: INJECTION}, "tags": [INJECTION]},
        {"reason": INJECTION, INJECTION: [INJECTION]},
    ]
    for body in bodies:
        await gateway.post("/runs", content=json.dumps(body), headers=json_type)
        await gateway.post("/dlq/redrive", content=json.dumps(body), headers=json_type)
    # The part that is allowed in a header.
    in_header = "".join(char for char in INJECTION if char in "\x85\x9b\t" or char >= " ")
    value = in_header.encode("latin-1", "replace")
    for name in (b"X-Request-ID", b"Host", b"Content-Type", b"Origin", b"X-Idempotency-Key"):
        head = b"POST /runs HTTP/1.1\r\nConnection: close\r\n" + name + b": " + value + b"\r\n"
        host = b"" if name == b"Host" else b"Host: localhost\r\n"
        await raw(gateway, head + host + b"\r\n")
    await raw(gateway, INJECTION.encode())
