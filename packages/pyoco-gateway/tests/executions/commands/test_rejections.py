"""Commands that do not fit the state: each reason over HTTP, and what is kept all the same."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from executions.commands.command_client import LINE, TASK, Commands, commits_of, reason
from pyoco_testkit.graph_documents import JsonObject, forked, line

if TYPE_CHECKING:
    from conftest import Store

Steps = tuple[tuple[str, JsonObject], ...]

NEXT: JsonObject = {"id": "next", "type": "Task"}
OTHER: JsonObject = {"id": "u", "type": "Task"}
BOUND = line({"id": "t", "type": "Task", "run": {"flow": "fetch"}})
RETRIED = line({**TASK, "retry": {"maxAttempts": 2, "backoff": {"initialSec": 600}}})
WAIT = line({"id": "w", "type": "Wait", "wait": {"key": "k"}})
RACE = forked(TASK, OTHER, policy="ANY_SUCCESS")
STARTED: Steps = (("nodes/t/start", {"workerId": "w1"}),)
BOTH: Steps = (*STARTED, ("nodes/u/start", {}))
FAILED_ONCE: Steps = (*STARTED, ("nodes/t/fail", {}))


@dataclass(frozen=True)
class Case:
    """A command that is rejected after these steps."""

    reason: str
    rest: str
    body: JsonObject = field(default_factory=dict)
    before: Steps = ()
    document: JsonObject = field(default_factory=lambda: LINE)
    start: bool = True
    details: JsonObject = field(default_factory=dict)


CASES = {
    "6 idle": Case("NODE_NOT_READY", "nodes/next/start", document=line(TASK, NEXT)),
    "6 not started": Case("NODE_NOT_READY", "nodes/t/start", start=False),
    "6 started": Case("NODE_ALREADY_STARTED", "nodes/t/start", before=STARTED),
    "6 retry": Case("RETRY_NOT_DUE", "nodes/t/start", before=FAILED_ONCE, document=RETRIED),
    "7 ready": Case("NODE_NOT_RUNNING", "nodes/t/progress"),
    "8 ready": Case("NODE_NOT_RUNNING", "nodes/t/wait"),
    "8 another key": Case(
        "NODE_NOT_RUNNING",
        "nodes/t/wait",
        {"waitKey": "b"},
        (*STARTED, ("nodes/t/wait", {"waitKey": "a"})),
    ),
    "9 running": Case("NODE_NOT_WAITING", "nodes/t/resume-request", before=STARTED),
    "9 wrong key": Case(
        "RESUME_KEY_MISMATCH", "nodes/w/resume-request", {"resumeKey": "l"}, document=WAIT
    ),
    "10 running": Case("NODE_NOT_WAITING", "nodes/t/resume", before=STARTED),
    "10 wrong key": Case(
        "RESUME_KEY_MISMATCH", "nodes/w/resume", {"resumeKey": "l"}, document=WAIT
    ),
    "10 no key": Case("RESUME_KEY_MISMATCH", "nodes/w/resume", document=WAIT),
    "11 ready": Case("NODE_NOT_RUNNING", "nodes/t/success"),
    "11 waiting": Case(
        "NODE_NOT_RUNNING", "nodes/t/success", before=(*STARTED, ("nodes/t/wait", {}))
    ),
    "12 ready": Case("NODE_NOT_RUNNING", "nodes/t/fail"),
    "G6 terminal": Case("EXECUTION_TERMINAL", "nodes/t/start", before=(("cancel", {}),)),
    "G6 terminal start": Case("EXECUTION_TERMINAL", "start", before=(("cancel", {}),)),
    "G7 cancel requested": Case(
        "EXECUTION_CANCEL_REQUESTED", "nodes/t/progress", before=(*STARTED, ("cancel", {}))
    ),
    "G7 archive": Case("EXECUTION_NOT_TERMINAL", "archive", before=(*STARTED, ("cancel", {}))),
    "G8 failing": Case(
        "EXECUTION_FAILING",
        "nodes/u/progress",
        before=(*BOTH, ("nodes/t/fail", {})),
        document=forked(TASK, OTHER),
    ),
    "G10 node type": Case("NODE_TYPE", "nodes/done/start", details={"nodeType": "Success"}),
    "G10 progress of a wait": Case("NODE_TYPE", "nodes/w/progress", document=WAIT),
    "G11 bound": Case("NODE_BOUND", "nodes/t/start", document=BOUND),
    "G12 terminal": Case(
        "NODE_TERMINAL",
        "nodes/t/success",
        before=(*STARTED, ("nodes/t/success", {})),
        document=line(TASK, NEXT),
    ),
    "G13 loser": Case(
        "NODE_CANCEL_REQUESTED",
        "nodes/u/progress",
        before=(*BOTH, ("nodes/t/success", {})),
        document=RACE,
    ),
    "G14 attempt of a start": Case("STALE_ATTEMPT", "nodes/t/start", {"attempt": 2}),
    "G14 attempt of a report": Case(
        "STALE_ATTEMPT",
        "nodes/t/success",
        {"attempt": 2},
        STARTED,
        details={"expectedAttempt": 1, "expectedWorkerId": "w1"},
    ),
    "G14 worker": Case("STALE_ATTEMPT", "nodes/t/success", {"workerId": "w2"}, STARTED),
    "G14 after a failure": Case(
        "STALE_ATTEMPT", "nodes/t/success", {}, FAILED_ONCE, document=RETRIED
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_a_command_that_does_not_fit_is_rejected(
    commands: Commands, store: "Store", case: Case
) -> None:
    path = await commands.created(case.document, start=case.start)
    await commands.done(path, *case.before)
    before = await commits_of(store, path)

    answer = await commands.post(f"{path}/{case.rest}", case.body)

    assert reason(answer) == case.reason
    details = answer.json()["error"]["details"]
    assert details["status"] == before[-1]["head"]["status"]
    assert details["seq"] == before[-1]["head"]["seq"]
    assert ("nodeStatus" in details) is case.rest.startswith("nodes/")
    assert case.details.items() <= details.items()
    assert details["errId"] == "ERR-PYOCO-0150"
    assert await commits_of(store, path) == before


LATE = {
    "3.3 a success": (
        "success",
        {"output": {"a": 1}},
        {"outcome": "SUCCEEDED", "output": {"a": 1}},
    ),
    "3.3 a failure": (
        "fail",
        {"error": {"code": "E"}},
        {"outcome": "FAILED", "error": {"code": "E"}},
    ),
    "3.3 a stop": (
        "fail",
        {"error": {"code": "RUN_CANCELED"}},
        {"outcome": "STOPPED", "error": {"code": "RUN_CANCELED"}},
    ),
}


@pytest.mark.parametrize(("rest", "body", "kept"), LATE.values(), ids=LATE.keys())
async def test_a_late_result_is_kept_and_rejected(
    commands: Commands, store: "Store", rest: str, body: JsonObject, kept: JsonObject
) -> None:
    """Example 5 of the specification: the cancel was a moment faster."""
    path = await commands.created(line(TASK, NEXT))
    await commands.done(path, *STARTED, ("cancel", {}))
    route = f"{path}/nodes/t/{rest}"

    late = await commands.post(route, body, "k")

    assert reason(late) == "EXECUTION_CANCEL_REQUESTED"
    details = late.json()["error"]["details"]
    commit = (await commits_of(store, path))[-1]
    assert (details["recorded"], details["status"]) == (True, "CANCELED")
    assert details["seq"] == commit["head"]["seq"]
    assert [each["type"] for each in commit["events"]] == ["NODE_CANCELED", "EXECUTION_CANCELED"]
    assert commit["events"][0]["payload"]["lateResult"] == kept
    # No key is stored, so a repeat is decided anew.
    assert "idempotencyKey" not in commit["command"]
    assert "answer" not in commit
    again = await commands.post(route, body, "k")
    assert reason(again) == "EXECUTION_TERMINAL"
    assert "recorded" not in again.json()["error"]["details"]
    assert len(await commits_of(store, path)) == 4


@pytest.mark.parametrize("body", [{"workerId": "w2"}, {"attempt": 2}])
async def test_a_late_result_of_another_worker_is_not_kept(
    commands: Commands, store: "Store", body: JsonObject
) -> None:
    path = await commands.done(await commands.created(), *STARTED, ("cancel", {}))
    answer = await commands.post(f"{path}/nodes/t/success", body)
    assert reason(answer) == "EXECUTION_CANCEL_REQUESTED"
    assert "recorded" not in answer.json()["error"]["details"]
    assert len(await commits_of(store, path)) == 3


async def test_a_late_result_of_a_loser_ends_the_execution(commands: Commands) -> None:
    """Example 3 of the specification: the join has passed without it."""
    path = await commands.done(await commands.created(RACE), *BOTH, ("nodes/t/success", {}))
    late = await commands.post(f"{path}/nodes/u/success")
    assert reason(late) == "NODE_CANCEL_REQUESTED"
    assert late.json()["error"]["details"]["status"] == "COMPLETED"


async def test_a_late_result_of_a_failing_execution_is_kept(commands: Commands) -> None:
    """Example 2 of the specification."""
    path = await commands.done(
        await commands.created(forked(TASK, OTHER)), *BOTH, ("nodes/t/fail", {})
    )
    late = await commands.post(f"{path}/nodes/u/success")
    assert reason(late) == "EXECUTION_FAILING"
    details = late.json()["error"]["details"]
    assert (details["recorded"], details["status"]) == (True, "FAILED")


async def test_a_cancel_after_the_end_changes_nothing(commands: Commands, store: "Store") -> None:
    path = await commands.done(await commands.created(), *STARTED, ("nodes/t/success", {}))
    before = await commits_of(store, path)
    answer = await commands.post(f"{path}/cancel", {"reason": "too late"})
    assert (answer.status_code, answer.json()["effect"]) == (200, "NONE")
    assert answer.json()["status"] == "COMPLETED"
    assert await commits_of(store, path) == before


async def test_a_rejection_is_told_in_japanese(commands: Commands) -> None:
    path = await commands.created()
    answer = await commands.post(f"{path}/nodes/t/success", {}, **{"Accept-Language": "ja"})
    assert reason(answer) == "NODE_NOT_RUNNING"
    assert "SucceedNodeは拒否されました" in answer.json()["error"]["message"]
