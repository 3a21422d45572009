from collections.abc import Mapping
from email.utils import formatdate
from typing import Any

import pytest

from pyoco_client.cli.diagnosis.findings import (
    HEALTH,
    RUNS,
    SCOPE_REQUESTS,
    WORKERS,
    WRITING,
    Answer,
    Finding,
    Seen,
    Target,
    Trouble,
    TroubleKind,
)
from pyoco_client.cli.diagnosis.gateway_checks import gateway_findings

NOW = 1_794_949_900.4
TARGET = Target("http://127.0.0.1:8000", "default", "X-API-Key", has_key=False)
WITH_KEY = Target("http://127.0.0.1:8000", "context a", "X-API-Key", has_key=True)
HEALTHY = {"status": "ok", "version": "0.1.0"}


def answer(status: int = 200, body: Any = None, **headers: str) -> Answer:
    dated = {"date": formatdate(NOW, usegmt=True), "content-type": "application/json"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, {**dated, **named}, body, NOW, NOW + 0.02)


def refusal(status: int, err_id: str) -> Answer:
    return answer(status, {"err_id": err_id, "detail": "no", "hint": "Do this."})


def findings(
    seen: Mapping[str, Seen], target: Target = TARGET, version: str = "0.1.0"
) -> dict[str, Finding]:
    return {each.check: each for each in gateway_findings(target, seen, version)}


def test_a_healthy_gateway_has_only_ok_findings() -> None:
    found = findings({HEALTH: answer(body=HEALTHY), RUNS: answer(body=[])})
    assert {check: finding.level for check, finding in found.items()} == {
        "gateway": "ok",
        "versions": "ok",
        "clock": "ok",
        "access": "ok",
    }
    assert "http://127.0.0.1:8000 (from default) answers" in found["gateway"].message
    assert all(finding.next_step is None for finding in found.values())


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        (TroubleKind.NAME, "Check the name"),
        (TroubleKind.REFUSED, "pyoco-server up"),
        (TroubleKind.TIMEOUT, "firewall"),
        (TroubleKind.CERTIFICATE, "certificate"),
        (TroubleKind.ENVIRONMENT, "HTTP_PROXY"),
        (TroubleKind.OTHER, "network"),
    ],
)
def test_a_gateway_without_an_answer_is_the_only_finding(kind: TroubleKind, step: str) -> None:
    found = findings({HEALTH: Trouble(kind, "why")})
    assert list(found) == ["gateway"]
    assert (found["gateway"].level, "why" in found["gateway"].message) == ("failure", True)
    assert step in (found["gateway"].next_step or "")


@pytest.mark.parametrize(
    ("health", "words"),
    [
        (answer(200, None, content_type="text/html", server="nginx"), "not a Pyoco gateway"),
        (answer(200, ["version"]), "not a Pyoco gateway"),
        (answer(200, {"status": "ok"}), "not a Pyoco gateway"),
        (answer(404, {"detail": "Not Found"}), "not a Pyoco gateway"),
        (answer(502, None, content_type="text/html"), "a proxy at"),
        (answer(302, None, location="https://sso.example/"), "https://sso.example/"),
        (refusal(421, "ERR-PYOCO-0135"), "refuses: no"),
    ],
)
def test_an_answer_of_another_server_is_a_failure(health: Answer, words: str) -> None:
    found = findings({HEALTH: health})
    assert list(found) == ["gateway"]
    assert found["gateway"].level == "failure"
    assert words in found["gateway"].message
    assert found["gateway"].next_step


@pytest.mark.parametrize(
    ("own", "theirs", "level", "step"),
    [
        ("0.1.0", "0.1.7", "ok", None),
        ("0.1.0", "0.2.0", "warning", "'pyoco-client==0.2.*'"),
        ("0.10.0", "0.9.3", "warning", "Have the gateway upgraded"),
        ("0.1.0", "unknown", "ok", None),
    ],
)
def test_versions_may_differ_in_their_last_part_only(
    own: str, theirs: str, level: str, step: str | None
) -> None:
    found = findings({HEALTH: answer(body={**HEALTHY, "version": theirs})}, version=own)["versions"]
    assert (found.level, own in found.message, theirs in found.message) == (level, True, True)
    assert step is None if found.next_step is None else (step or "") in found.next_step


@pytest.mark.parametrize(
    ("skew", "words"),
    [(0.0, None), (2.5, None), (-2.5, None), (90.0, "90 s ahead of"), (-90.0, "s behind")],
)
def test_clocks_that_differ_are_a_warning(skew: float, words: str | None) -> None:
    date = formatdate(NOW + skew, usegmt=True)
    found = findings({HEALTH: answer(body=HEALTHY, date=date)})["clock"]
    assert found.level == ("ok" if words is None else "warning")
    assert words is None or words in found.message


def test_an_invalid_date_header_gives_no_clock_finding() -> None:
    assert "clock" not in findings({HEALTH: answer(body=HEALTHY, date="yesterday")})


def test_a_missing_key_is_a_failure_with_the_option_to_set() -> None:
    seen = {HEALTH: answer(body=HEALTHY), RUNS: refusal(401, "ERR-PYOCO-0014")}
    found = findings(seen)["access"]
    assert (found.level, "--api-key" in (found.next_step or "")) == ("failure", True)
    # The request carries a key, so the gateway reads another header.
    assert "--api-key-header" in (findings(seen, WITH_KEY)["access"].next_step or "")


def test_a_key_that_is_not_valid_is_a_failure() -> None:
    seen = {HEALTH: answer(body=HEALTHY), RUNS: refusal(403, "ERR-PYOCO-0015")}
    found = findings(seen, WITH_KEY)["access"]
    assert found.level == "failure"
    assert "mistyped, expired or revoked" in found.message


def test_the_known_scopes_of_a_key_are_listed() -> None:
    missing = refusal(403, "ERR-PYOCO-0130")
    seen = {
        HEALTH: answer(body=HEALTHY),
        RUNS: answer(body=[]),
        WRITING: refusal(415, "ERR-PYOCO-0103"),
        WORKERS: missing,
    }
    found = findings(seen, WITH_KEY)["access"]
    assert found.level == "warning"
    assert found.message == "the API key is valid; it has runs:read, runs:write and lacks ops"
    all_of_them = findings({**seen, WORKERS: answer(body=[])}, WITH_KEY)["access"]
    assert all_of_them.message == "the API key is valid, with at least runs:read, runs:write, ops"


def test_the_scopes_for_executions_of_a_key_are_listed() -> None:
    missing = refusal(403, "ERR-PYOCO-0130")
    lacks = answer(403, {"error": {"code": "FORBIDDEN", "details": {"errId": "ERR-PYOCO-0130"}}})
    no_key = answer(422, {"error": {"code": "X", "details": {"errId": "ERR-PYOCO-0152"}}})
    seen: dict[str, Seen] = {RUNS: missing, WRITING: missing, WORKERS: missing}
    granted = {"executions:read": answer(body={"items": []}), "executions:resume": no_key}
    seen |= {
        request: granted.get(scope, lacks)
        for scope, request in SCOPE_REQUESTS.items()
        if request not in seen
    }
    found = findings({HEALTH: answer(body=HEALTHY), **seen}, WITH_KEY)["access"]
    assert "it has executions:read, executions:resume and lacks runs:read" in found.message
    assert found.message.endswith("ops, executions:write, executions:work, graphs:write")


def test_a_gateway_without_executions_has_no_scopes_for_them() -> None:
    absent = refusal(404, "ERR-PYOCO-0110")
    seen: dict[str, Seen] = dict.fromkeys(SCOPE_REQUESTS.values(), absent)
    read = answer(body=[])
    found = findings({HEALTH: answer(body=HEALTHY), **seen, RUNS: read}, WITH_KEY)["access"]
    assert found.message == "the API key is valid, with at least runs:read"


def test_a_key_that_the_gateway_cannot_check_is_a_warning() -> None:
    away = refusal(503, "ERR-PYOCO-0003")
    seen = {HEALTH: answer(body=HEALTHY), RUNS: away, WRITING: away, WORKERS: away}
    found = findings(seen, WITH_KEY)["access"]
    assert (found.level, "cannot check the API key now" in found.message) == ("warning", True)
    partly = findings({**seen, RUNS: answer(body=[])}, WITH_KEY)["access"]
    assert partly.message == "the API key is valid, with at least runs:read"


def test_too_many_requests_are_a_warning_about_the_limit() -> None:
    limited = answer(429, {"err_id": "ERR-PYOCO-0104", "detail": "slow"}, retry_after="7")
    found = findings({HEALTH: answer(body=HEALTHY), RUNS: limited}, WITH_KEY)["access"]
    assert (found.level, "Wait 7 s" in (found.next_step or "")) == ("warning", True)


@pytest.mark.parametrize(
    ("server", "has_key", "warns"),
    [
        ("http://pyoco.example", True, True),
        ("http://pyoco.example", False, False),
        ("https://pyoco.example", True, False),
        ("http://localhost:8000", True, False),
        ("http://[::1]:8000", True, False),
    ],
)
def test_a_key_sent_over_plain_http_is_a_warning(server: str, has_key: bool, warns: bool) -> None:
    target = Target(server, "default", "X-API-Key", has_key)
    assert ("transport" in findings({HEALTH: answer(body=HEALTHY)}, target)) == warns
