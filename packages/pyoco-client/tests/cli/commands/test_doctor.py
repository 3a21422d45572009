import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from pyoco_client.cli import main
from pyoco_client.cli.diagnosis.findings import SCOPE_REQUESTS
from pyoco_testkit.recorded_gateway import RecordedGateway
from pyoco_testkit.terminal_session import TerminalSession

HEALTHY = {
    "status": "ok",
    "version": "0.1.0",
    "broker": {"connected": True, "address": "nats://b:4222", "server_version": "2.11.0"},
    "streams": [{"name": "PYOCO_WORK", "state": "ok", "differences": []}],
    "consumers": [],
    "index": {"caught_up": True, "runs": 0, "unreadable": 0, "lag": 0},
}
KEY = "canary-5f0e"


Output = pytest.CaptureFixture[str]


@pytest.fixture
def healthy(gateway: RecordedGateway) -> RecordedGateway:
    gateway.answer("GET /health", 200, HEALTHY)
    gateway.answer("GET /runs", 200, [])
    gateway.answer("GET /workers", 200, [{"worker_id": "w", "state": "IDLE", "tags": ["default"]}])
    gateway.answer("GET /queues", 200, [])
    gateway.answer("GET /dlq", 200, {"items": [], "next_cursor": None})
    gateway.answer("POST /runs/yaml/validate", 415, {"err_id": "ERR-PYOCO-0103"})
    absent = {"err_id": "ERR-PYOCO-0110"}
    for request in SCOPE_REQUESTS.values():
        method, _, target = request.partition(" ")
        if target.startswith(("/executions", "/graphs")):
            gateway.answer(f"{method} {target.partition('?')[0]}", 404, absent)
    return gateway


def report(capsys: Output) -> dict[str, Any]:
    printed = capsys.readouterr()
    assert printed.err == ""
    document: dict[str, Any] = json.loads(printed.out)
    return document


def levels(document: dict[str, Any]) -> dict[str, str]:
    return {check["check"]: check["level"] for check in document["checks"]}


def test_a_healthy_installation_has_only_ok_checks(
    healthy: RecordedGateway, capsys: Output
) -> None:
    assert main(["--server", healthy.url, "doctor"]) == 0
    document = report(capsys)
    assert document["healthy"] is True
    assert set(levels(document)) == {
        *("gateway", "versions", "clock", "access", "broker", "streams", "consumers", "index"),
        *("workers", "queues", "dead letters"),
    }
    assert set(levels(document).values()) == {"ok"}
    assert {request.method for request in healthy.requests} == {"GET"}


def test_a_gateway_that_is_down_is_a_failure_with_the_next_step(capsys: Output) -> None:
    with socket.socket() as taken:
        # Bound but not listening: connections are refused, and no other process gets the port.
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert main(["--server", address, "doctor", "--output", "text"]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"failure  gateway       {address} (from argument) does not answer")
    assert second.strip().startswith("-> Start the gateway there (`pyoco-server up`")


def test_a_silent_gateway_gets_one_request(gateway: RecordedGateway, capsys: Output) -> None:
    gateway.stay_silent("GET /health")
    assert main(["--server", gateway.url, "--timeout", "0.2", "doctor"]) == 1
    assert levels(report(capsys)) == {"gateway": "failure"}
    assert len(gateway.requests) == 1


def test_another_server_is_not_taken_for_a_gateway(
    gateway: RecordedGateway, capsys: Output
) -> None:
    gateway.answer("GET /health", 200, text="<html>", content_type="text/html")
    assert main(["--server", gateway.url, "doctor"]) == 1
    (check,) = report(capsys)["checks"]
    assert "is not a Pyoco gateway: it answers 200 with text/html" in check["message"]
    assert len(gateway.requests) == 1


def test_an_unknown_host_name_has_its_own_next_step(capsys: Output) -> None:
    assert main(["--server", "http://nowhere.invalid", "doctor"]) == 1
    (check,) = report(capsys)["checks"]
    assert check["next_step"].startswith("Check the name")


def test_https_to_an_http_port_has_its_own_next_step(
    gateway: RecordedGateway, capsys: Output
) -> None:
    address = gateway.url.replace("http:", "https:")
    assert main(["--server", address, "doctor"]) == 1
    (check,) = report(capsys)["checks"]
    assert "http:// and https://" in check["next_step"]


def test_a_missing_api_key_is_a_failure(gateway: RecordedGateway, capsys: Output) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    for route in ("/runs", "/workers", "/queues", "/dlq"):
        gateway.answer(f"GET {route}", 401, {"err_id": "ERR-PYOCO-0014", "detail": "no API key"})
    assert main(["--server", gateway.url, "doctor"]) == 1
    document = report(capsys)
    assert levels(document) == {
        "gateway": "ok",
        "versions": "ok",
        "clock": "ok",
        "access": "failure",
    }


def test_a_key_is_sent_and_never_shown(
    healthy: RecordedGateway, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYOCO_API_KEY", KEY)
    for form in ("text", "json"):
        assert main(["--server", healthy.url, "doctor", "--output", form]) == 0
        printed = capsys.readouterr()
        assert "runs:read, runs:write, ops" in printed.out
        assert KEY not in printed.out + printed.err
    assert {request.headers["X-API-Key"] for request in healthy.requests} == {KEY}


def test_a_broker_that_is_down_is_a_failure(gateway: RecordedGateway, capsys: Output) -> None:
    broker = {"connected": False, "address": "nats://b:4222"}
    gateway.answer("GET /health", 200, {**HEALTHY, "broker": broker, "streams": None})
    for route in ("/runs", "/workers", "/queues", "/dlq"):
        gateway.answer(f"GET {route}", 503, {"err_id": "ERR-PYOCO-0003", "detail": "away"})
    assert main(["--server", gateway.url, "doctor"]) == 1
    assert levels(report(capsys))["broker"] == "failure"


def test_a_warning_is_not_a_failure(healthy: RecordedGateway, capsys: Output) -> None:
    healthy.answer("GET /health", 200, {**HEALTHY, "version": "9.1.0"})
    # The first call gets the answer of the fixture, the second one this answer.
    assert main(["--server", healthy.url, "doctor"]) == 0
    capsys.readouterr()
    assert main(["--server", healthy.url, "doctor"]) == 0
    document = report(capsys)
    assert (document["healthy"], levels(document)["versions"]) == (True, "warning")


def test_control_characters_of_a_server_are_escaped(
    gateway: RecordedGateway, capsys: Output
) -> None:
    gateway.answer("GET /health", 421, {"err_id": "x", "detail": "\x1b[2J\x9b\nhello"})
    assert main(["--server", gateway.url, "doctor", "--output", "text"]) == 1
    printed = capsys.readouterr().out
    assert "refuses: \\u001b[2J\\u009b\\u000ahello" in printed


async def test_the_report_on_a_terminal_is_coloured_text(
    healthy: RecordedGateway, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "pyoco_client", "--server", healthy.url, "doctor"]
    async with TerminalSession(
        command, columns=120, env={"PYOCO_CONFIG": str(tmp_path / "none")}
    ) as session:
        assert await session.ended() == 0
        assert session.screen.rows[0].startswith("ok       gateway       http://127.0.0.1")
        assert session.screen.colours_of("ok       ") == {"32"}
        assert session.is_as_found


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            80,
            [
                "warning  queues        3 runs with tag gpu wait and no worker takes them",
                "                       -> Start a worker with this tag: pyoco-worker --tags gpu",
            ],
        ),
        (
            40,
            [
                "warning  queues",
                "  3 runs with tag gpu wait and no",
                "  worker takes them",
                "  -> Start a worker with this tag:",
                "  pyoco-worker --tags gpu",
            ],
        ),
    ],
)
async def test_the_report_fits_the_window(
    gateway: RecordedGateway, tmp_path: Path, columns: int, expected: list[str]
) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    for route in ("/runs", "/workers", "/dlq"):
        gateway.answer(f"GET {route}", 403, {"err_id": "ERR-PYOCO-0130"})
    gateway.answer("GET /queues", 200, [{"tag": "gpu", "pending": 3, "workers": 0}])
    command = [sys.executable, "-m", "pyoco_client", "--server", gateway.url, "doctor"]
    async with TerminalSession(
        command, columns=columns, env={"PYOCO_CONFIG": str(tmp_path / "none")}
    ) as session:
        assert await session.ended() == 0
        assert session.screen.rows[-len(expected) :] == expected


def test_a_password_in_the_address_is_not_shown(healthy: RecordedGateway, capsys: Output) -> None:
    address = healthy.url.replace("//", f"//user:{KEY}@")
    assert main(["--server", address, "doctor", "--output", "text"]) == 0
    assert KEY not in capsys.readouterr().out


def test_an_unusable_proxy_is_reported_by_doctor_and_other_commands(
    healthy: RecordedGateway, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setenv("ALL_PROXY", "nonsense://x")
    for line in (["doctor", "--output", "text"], ["health"]):
        assert main(["--server", healthy.url, *line]) == 1
        printed = capsys.readouterr()
        text = printed.out + printed.err
        assert "nonsense://x" in text
        assert "Check HTTP_PROXY" in text
