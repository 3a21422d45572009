"""Limits of values, at the limit and above it."""

import json
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from execution_requests import refusal
from executions.commands.command_client import IDEMPOTENCY, TASK, Commands, commits_of, reason
from executions.log.log_parts import CommandSide, execution_broker
from executions.log.log_writer import LogWriter
from pyoco_gateway.executions.core.limits import MAX_EVENTS
from pyoco_gateway.executions.log.checkpoint_codec import checkpoint_of
from pyoco_gateway.executions.log.logged_state import after_commit
from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.executions.events import NodeProgressReported
from pyoco_testkit.graph_documents import JsonObject, line
from pyoco_testkit.nats_server import NatsServer

if TYPE_CHECKING:
    from conftest import Store

WAIT = line(TASK, {"id": "w", "type": "Wait", "wait": {}})
# The part of the path, the names that lead to the value, and its limit in bytes.
SIZES: dict[str, tuple[str, tuple[str, ...], int]] = {
    "input": ("", ("input",), 65_536),
    "output": ("nodes/t/success", ("output",), 65_536),
    "payload of resume": ("nodes/t/resume", ("payload",), 65_536),
    "payload of resume-request": ("nodes/t/resume-request", ("payload",), 65_536),
    "prompt": ("nodes/t/wait", ("prompt",), 16_384),
    "error.detail": ("nodes/t/fail", ("error", "detail"), 16_384),
    "metrics": ("nodes/t/progress", ("metrics",), 4_096),
}


def sized(size: int) -> JsonObject:
    """Return an object whose canonical JSON has this size."""
    value: JsonObject = {"a": "x" * (size - len('{"a":""}'))}
    assert len(canonical_json(value)) == size
    return value


def body_of(rest: str, names: tuple[str, ...], value: Any) -> JsonObject:
    for name in reversed(names):
        value = {name: value}
    return {"graphId": "g", **value} if not rest else value


async def path_for(commands: Commands, rest: str) -> str:
    """Return a path at which the value is accepted."""
    if not rest:
        await commands.put_graph()
        return "/executions"
    steps: list[tuple[str, JsonObject]] = [("nodes/t/start", {})]
    if "resume" in rest:
        steps.append(("nodes/t/wait", {}))
    return f"{await commands.done(await commands.created(), *steps)}/{rest}"


@pytest.mark.parametrize(("rest", "names", "limit"), SIZES.values(), ids=SIZES.keys())
async def test_a_value_at_its_limit_is_kept_and_one_above_it_is_refused(
    commands: Commands, store: "Store", rest: str, names: tuple[str, ...], limit: int
) -> None:
    path = await path_for(commands, rest)

    above = await commands.post(path, body_of(rest, names, sized(limit + 1)))
    assert refusal(above) == (413, "PAYLOAD_TOO_LARGE")
    details = above.json()["error"]["details"]
    assert details["where"] == ".".join(names)
    assert (details["maxBytes"], details["sizeBytes"]) == (limit, limit + 1)

    answer = await commands.post(path, body_of(rest, names, sized(limit)))
    assert answer.status_code == 202, answer.text
    execution = f"/executions/{answer.json()['executionId']}"
    stored = (await commits_of(store, execution))[-1]["events"][0]["payload"]
    for name in names:
        stored = stored[name]
    assert stored == sized(limit)


async def test_a_value_is_measured_in_canonical_json(commands: Commands) -> None:
    """Neither spaces nor escapes count, and a character counts with its bytes."""
    path = await commands.done(await commands.created(), ("nodes/t/start", {}))
    headers = {IDEMPOTENCY: "k", "Content-Type": "application/json"}
    escaped = json.dumps({"a": "世" * ((65_536 - 8) // 3)}, indent=200).encode()
    assert len(escaped) > 100_000
    body = b'{"output": ' + escaped + b"}"
    answer = await commands.http.post(
        f"{path}/nodes/t/success", content=body, headers={**headers, IDEMPOTENCY: "other"}
    )
    assert answer.status_code == 202, answer.text

    wide = {"a": "世" * 22_000}
    path = await commands.done(await commands.created(), ("nodes/t/start", {}))
    answer = await commands.post(f"{path}/nodes/t/success", {"output": wide})
    assert refusal(answer) == (413, "PAYLOAD_TOO_LARGE")


async def test_the_largest_commit_fits_into_a_message(commands: Commands) -> None:
    """A creation with the largest input, and an approval with the largest of everything."""
    await commands.put_graph(WAIT)
    labels = ["世" * 64 for _ in range(10)]
    body = {"graphId": "g", "input": sized(65_536), "labels": labels, "start": True}
    created = await commands.accepted("/executions", body, "k" * 255)
    path = f"/executions/{created['executionId']}"
    await commands.done(path, ("nodes/t/start", {}), ("nodes/t/success", {"output": sized(65_536)}))
    await commands.done(
        path,
        ("nodes/w/resume-request", {"comment": "世" * 1000, "payload": sized(65_536)}),
        ("nodes/w/resume", {"payload": sized(65_536)}),
    )


# A part of the path, a field, the largest valid values and invalid ones.
FIELDS: dict[str, tuple[str, str, list[Any], list[Any]]] = {
    "reason of cancel": ("cancel", "reason", ["", "x" * 1000], ["x" * 1001]),
    "reason of archive": ("archive", "reason", ["x" * 1000], ["x" * 1001]),
    "workerId": ("nodes/t/start", "workerId", ["w", "x" * 128], ["", "x" * 129]),
    "attempt": ("nodes/t/start", "attempt", [1, 1.0, 2**53], [0, -1, 1.5, "1"]),
    "progress": ("nodes/t/progress", "progress", [0, 100, 99.9], [-0.1, 100.1, "5", True]),
    "message": ("nodes/t/progress", "message", ["x" * 500], ["x" * 501]),
    "waitKey": ("nodes/t/wait", "waitKey", ["", "x" * 200], ["x" * 201]),
    "timeoutSec": ("nodes/t/wait", "timeoutSec", [1, 31_536_000], [0, 31_536_001, "9"]),
    "resumeKey": ("nodes/t/resume", "resumeKey", ["x" * 200], ["x" * 201]),
    "comment": ("nodes/t/resume-request", "comment", ["x" * 1000], ["x" * 1001]),
    "error.code": (
        "nodes/t/fail",
        "error",
        [{"code": "x" * 64}, {}],
        [{"code": "x" * 65}, "text"],
    ),
    "error.message": (
        "nodes/t/fail",
        "error",
        [{"message": "x" * 2000}],
        [{"message": "x" * 2001}],
    ),
    "graphId": ("", "graphId", ["a", "A-_9", "x" * 64], ["", "-a", "a b", "x" * 65, "a.b", "*"]),
    "graphVersion": ("", "graphVersion", [1, 1.0, 10**9], [0, -1, "1", 1.5]),
    "labels": ("", "labels", [[], ["x" * 64] * 10], [["x"] * 11, [""], ["x" * 65], "x", [1]]),
    "input": ("", "input", [{}], [[], "x", 1]),
    "start": ("", "start", [True, False], [1, "true"]),
}


@pytest.mark.parametrize(("rest", "name", "valid", "invalid"), FIELDS.values(), ids=FIELDS.keys())
async def test_a_field_has_limits(
    commands: Commands, rest: str, name: str, valid: list[Any], invalid: list[Any]
) -> None:
    """A valid value is refused for another reason: there is no such execution or graph."""
    path = f"/executions/{uuid.uuid4()}/{rest}" if rest else "/executions"
    required = {} if rest else {"graphId": "none"}
    for value in valid:
        answer = await commands.post(path, {**required, name: value})
        assert answer.status_code == 404, answer.text
    for value in invalid:
        answer = await commands.post(path, {**required, name: value})
        assert refusal(answer) == (422, "INVALID_REQUEST"), value


async def test_a_creation_names_its_graph(commands: Commands) -> None:
    assert refusal(await commands.post("/executions", {})) == (422, "INVALID_REQUEST")


async def test_progress_is_stored_once_a_second(commands: Commands, store: "Store") -> None:
    path = await commands.done(await commands.created(), ("nodes/t/start", {}))
    answers = [
        await commands.post(f"{path}/nodes/t/progress", {"progress": value}) for value in (1, 2)
    ]
    assert [each.json()["effect"] for each in answers] == ["APPLIED", "NONE"]
    assert [each.status_code for each in answers] == [202, 200]
    assert len(await commits_of(store, path)) == 3


async def test_a_log_of_200000_events_takes_only_what_ends_it(
    commands: Commands, nats_server: NatsServer
) -> None:
    path = await commands.done(await commands.created(), ("nodes/t/start", {}))
    execution_id = path.rpartition("/")[2]
    async with execution_broker(nats_server.url) as broker:
        await fill(CommandSide(broker), execution_id)

    for rest in ("start", "nodes/t/progress", "nodes/t/wait", "nodes/t/resume", "nodes/t/start"):
        answer = await commands.post(f"{path}/{rest}")
        assert reason(answer) == "EXECUTION_TOO_LONG"
    await commands.done(path, ("nodes/t/success", {}), ("archive", {}))


async def fill(side: CommandSide, execution_id: str) -> None:
    """Append a commit that ends with the last event, and its checkpoint."""
    logged = await side.replayed(execution_id)
    writer = LogWriter(side.broker, logged)
    record = replace(
        writer.record([NodeProgressReported(node_id="t", attempt=1)]), first_seq=MAX_EVENTS
    )
    body = record.to_bytes()
    stream_seq = await writer.store(body)
    before = replace(logged, state=replace(logged.state, seq=MAX_EVENTS - 1))
    after = after_commit(before, execution_id, record, body, stream_seq)
    await side.checkpoints.put(execution_id, MAX_EVENTS, checkpoint_of(after))
