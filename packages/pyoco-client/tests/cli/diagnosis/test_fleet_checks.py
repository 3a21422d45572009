from email.utils import formatdate
from typing import Any

import pytest

from pyoco_client.cli.diagnosis.findings import (
    DEAD_LETTERS,
    HEALTH,
    QUEUES,
    RUNS,
    WORKERS,
    Answer,
    Finding,
    Seen,
    Trouble,
    TroubleKind,
)
from pyoco_client.cli.diagnosis.fleet_checks import fleet_findings

# The time of the gateway's clock; this machine's clock is a day behind.
NOW = 1_794_949_900.0
HERE = NOW - 86_400

BROKER = {"connected": True, "address": "nats://b:4222", "server_version": "2.11.0"}
STREAMS = [
    {"name": "PYOCO_WORK", "state": "ok", "messages": 3, "differences": []},
    {"name": "PYOCO_DLQ", "state": "ok", "messages": 12, "differences": []},
]
INDEX = {"caught_up": True, "runs": 42, "unreadable": 0, "lag": 0}
DETAILS: dict[str, Any] = {
    "version": "0.1.0",
    "broker": BROKER,
    "streams": STREAMS,
    "consumers": [{"name": "default", "state": "ok", "differences": []}],
    "index": INDEX,
}


def answer(body: Any, status: int = 200) -> Answer:
    return Answer(status, {"date": formatdate(NOW, usegmt=True)}, body, HERE, HERE)


def findings(health: dict[str, Any], **more: Seen) -> list[Finding]:
    routes = {"workers": WORKERS, "queues": QUEUES, "dlq": DEAD_LETTERS, "runs": RUNS}
    return list(fleet_findings({HEALTH: answer(health), **{routes[k]: v for k, v in more.items()}}))


def worker(name: str, state: str, *tags: str) -> dict[str, Any]:
    return {"worker_id": name, "state": state, "tags": list(tags)}


def queue(tag: str, pending: int, workers: int, age: float | None = None) -> dict[str, Any]:
    return {
        "tag": tag,
        "pending": pending,
        "workers": workers,
        "in_flight": 1,
        "free_slots": 0,
        "oldest_age_sec": age,
    }


def letter(age: float, reason: str = "execution_error") -> dict[str, Any]:
    return {"seq": 1, "timestamp": NOW - age, "reason": reason}


def test_a_healthy_fleet_has_only_ok_findings() -> None:
    found = findings(
        DETAILS,
        workers=answer([worker("w1", "IDLE", "cpu"), worker("w2", "RUNNING", "cpu", "gpu")]),
        queues=answer([queue("cpu", 2, 2, 1.5)]),
        dlq=answer({"items": [letter(7200)], "next_cursor": None}),
    )
    assert [(each.check, each.level, each.message) for each in found] == [
        ("broker", "ok", "nats-server 2.11.0 at nats://b:4222"),
        ("streams", "ok", "2, all as configured"),
        ("consumers", "ok", "1, all as configured"),
        ("index", "ok", "42 runs, up to date"),
        ("workers", "ok", "2 alive; by tag: cpu 2, gpu 1"),
        ("queues", "ok", "2 runs wait, 1 are running"),
        ("dead letters", "ok", "12 kept, none in the last hour"),
    ]


def test_without_a_broker_there_are_no_findings_about_its_parts() -> None:
    unavailable = answer({"err_id": "ERR-PYOCO-0003"}, 503)
    health = {**DETAILS, "broker": {**BROKER, "connected": False}, "streams": None}
    found = findings(health, workers=unavailable, queues=unavailable)
    assert [(each.check, each.level) for each in found] == [("broker", "failure")]
    assert "nats://b:4222" in found[0].message
    assert "PYOCO_NATS_URL" in (found[0].next_step or "")


def test_a_broker_that_is_down_is_found_without_the_details_of_health() -> None:
    found = findings({"version": "0.1.0"}, runs=answer({"err_id": "ERR-PYOCO-0003"}, 503))
    assert [(each.check, each.level) for each in found] == [("broker", "failure")]


def test_an_operation_that_the_broker_denied_is_a_warning() -> None:
    trouble = "the broker denied publishing on pyoco.work.cpu to pyoco-gateway"
    (found, *_) = findings({**DETAILS, "broker": {**BROKER, "trouble": trouble}})
    assert (found.check, found.level) == ("broker", "warning")
    assert found.message == f"nats-server 2.11.0 at nats://b:4222: {trouble}"
    assert "pyoco-server-admin nats-config" in (found.next_step or "")
    # A permission that only executions need is a problem of executions.
    executions = {"available": False, "problems": [f"PYOCO_GRAPHS: {trouble}"]}
    health = {**DETAILS, "broker": {**BROKER, "trouble": trouble}, "executions": executions}
    levels = {each.check: each.level for each in findings(health)}
    assert (levels["broker"], levels["executions"]) == ("ok", "warning")


def test_a_caller_without_permission_gets_no_findings_about_the_fleet() -> None:
    forbidden = answer({"err_id": "ERR-PYOCO-0130"}, 403)
    refused = Trouble(TroubleKind.TIMEOUT, "timed out")
    assert findings({"version": "0.1.0"}, workers=forbidden, queues=forbidden, dlq=refused) == []


@pytest.mark.parametrize(
    ("part", "value", "level", "words"),
    [
        ("streams", None, "warning", "did not answer in time"),
        ("streams", [{"name": "PYOCO_WORK", "state": "missing"}], "failure", "PYOCO_WORK"),
        (
            "streams",
            [
                {
                    "name": "PYOCO_DLQ",
                    "state": "differs",
                    "differences": [{"setting": "max_age", "wanted": 7, "found": 1}],
                }
            ],
            "warning",
            "PYOCO_DLQ (max_age is 1, wanted 7)",
        ),
        (
            "consumers",
            [
                {
                    "name": "cpu",
                    "state": "differs",
                    "differences": [{"setting": "ack_wait", "wanted": 30, "found": 5}],
                }
            ],
            "warning",
            "cpu (ack_wait is 5, wanted 30)",
        ),
        ("index", {**INDEX, "caught_up": False, "lag": 9}, "warning", "9 changes left"),
        ("index", {**INDEX, "unreadable": 2}, "warning", "2 run records cannot be read"),
    ],
)
def test_differences_on_the_broker_are_listed(
    part: str, value: Any, level: str, words: str
) -> None:
    (found,) = [each for each in findings({**DETAILS, part: value}) if each.check == part]
    assert (found.level, words in found.message) == (level, True)
    assert found.next_step


def test_no_worker_and_lost_workers_are_warnings() -> None:
    gone = [worker(f"w{number}", "DISCONNECTED", "cpu") for number in range(7)]
    found = findings(DETAILS, workers=answer([*gone, worker("old", "STOPPED_GRACEFUL")]))[4:]
    assert [each.level for each in found] == ["warning", "warning"]
    assert "none is alive" in found[0].message
    assert found[1].message == "lost without a shutdown: w0, w1, w2, w3, w4 and 2 more"
    assert (found[1].next_step or "").endswith("pyoco-client worker hide w0")
    hidden = [{**each, "hidden": True} for each in gone]
    found = findings(DETAILS, workers=answer([*hidden, worker("new", "IDLE", "cpu")]))[4:]
    assert [each.message for each in found] == ["1 alive; by tag: cpu 1"]


def test_queues_without_workers_and_slow_queues_are_warnings() -> None:
    queues = [
        queue("gpu", 3, 0, 125),
        queue("cpu", 5, 2, 900),
        queue("fast", 5, 2, 1),
        queue("none", 0, 0),
        queue("one", 1, 0, 125),
    ]
    found = findings(DETAILS, queues=answer(queues))[4:]
    assert [each.message for each in found] == [
        "3 runs with tag gpu wait and no worker takes them, the oldest for 2m05s",
        "1 run with tag one waits and no worker takes it, the oldest for 2m05s",
        "5 runs with tag cpu wait, the oldest for 15m00s; 0 slots are free",
    ]
    assert found[0].next_step == "Start a worker with this tag: pyoco-worker --tags gpu"


def test_dead_letters_of_the_last_hour_are_counted_by_the_gateways_clock() -> None:
    letters = [letter(10), letter(20, "not_found"), letter(3500), letter(4000)]
    (found,) = findings(DETAILS, dlq=answer({"items": letters, "next_cursor": "x"}))[4:]
    assert found.level == "warning"
    assert found.message == "3 in the last hour (execution_error 2, not_found 1); 12 kept"
    assert "pyoco-client dlq list" in (found.next_step or "")
    # Without a filter the command requires --all.
    assert (found.next_step or "").endswith("pyoco-client dlq redrive --all")


def test_the_count_of_dead_letters_on_more_than_one_page_has_a_plus() -> None:
    page = {"items": [letter(10), letter(11)], "next_cursor": "x"}
    (found,) = findings({"version": "0.1.0"}, dlq=answer(page))
    assert found.message == "2+ in the last hour (execution_error 2); 2+ kept"


def test_malformed_answers_cause_no_error() -> None:
    odd = {"version": 1, "broker": {"connected": 1}, "streams": [None], "consumers": 5, "index": []}
    assert findings(odd, workers=answer([None, {"tags": None}]), queues=answer([{}, 3]))
    assert findings(odd, dlq=answer({"items": [None, {"timestamp": "x"}]}))
