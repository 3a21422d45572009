"""Submitting and validating workflow files over HTTP."""

import hashlib
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest

from pyoco_gateway.workflows import check as check_workflow
from pyoco_protocol.workflows.graph_rules import GraphLanguage, Workflow, read_workflow
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

if TYPE_CHECKING:
    from conftest import StartGateway, Store

VALID = """\
flow:
  graph: a >> b
  defaults: {day: monday, sizes: [1, 2]}
tasks:
  a: {callable: "m:f"}
  b: {callable: "m:g"}
"""
SHA256 = hashlib.sha256(VALID.encode()).hexdigest()
INVALID = """\
flow:
  graph: a >> c
  colour: red
tasks:
  a: {callable: "m:f"}
discovery: {}
"""

Submit = Callable[..., Awaitable[httpx.Response]]


@pytest.fixture
def submit(gateway: httpx.AsyncClient) -> Submit:
    async def post(text: str = VALID, *, key: str | None = None, **fields: str) -> httpx.Response:
        headers = {} if key is None else {"X-Idempotency-Key": key}
        data = {"flow_name": "report", **fields}
        files = {"workflow": ("flow.yaml", text.encode())}
        return await gateway.post("/runs/yaml", files=files, data=data, headers=headers)

    return post


async def test_a_file_becomes_a_run_with_its_defaults_as_params(
    submit: Submit, store: "Store"
) -> None:
    answer = await submit(tag="cpu")
    assert (answer.status_code, answer.json()["status"]) == (200, "PENDING")
    run_id = answer.json()["run_id"]
    run = (await store.runs())[run_id]
    assert (run["flow_name"], run["tag"], run["tags"]) == ("report", "cpu", ["cpu"])
    assert run["params"] == {"day": "monday", "sizes": [1, 2]}
    assert (run["workflow_yaml_sha256"], run["workflow_yaml_bytes"]) == (SHA256, len(VALID))
    assert VALID not in str(run)
    (job,) = await store.jobs()
    assert job.subject == "pyoco.work.cpu"
    assert (job.body["workflow_yaml"], job.body["workflow_yaml_sha256"]) == (VALID, SHA256)
    assert job.body["params"] == run["params"]


async def test_the_text_is_stored_once_under_its_hash(submit: Submit, store: "Store") -> None:
    for _ in range(3):
        assert (await submit()).status_code == 200
    objects = await store.js.object_store("pyoco_workflows")
    assert [found.name for found in await objects.list()] == [SHA256]
    assert (await objects.get(SHA256)).data == VALID.encode()


async def test_the_same_key_with_the_same_file_is_the_same_run(
    submit: Submit, store: "Store"
) -> None:
    first, again = await submit(key="k"), await submit(key="k")
    assert first.json() == again.json()
    assert again.headers["Idempotency-Replayed"] == "true"
    assert len(await store.runs()) == 1
    # A job that was queued again still contains the text.
    assert {job.body["workflow_yaml"] for job in await store.jobs()} == {VALID}


@pytest.mark.parametrize("other", [{"text": VALID + "# more"}, {"tag": "gpu"}, {"flow_name": "x"}])
async def test_the_same_key_with_another_file_tag_or_name_is_a_conflict(
    submit: Submit, other: dict[str, str]
) -> None:
    assert (await submit(key="k")).status_code == 200
    answer = await submit(**other, key="k")
    assert (answer.status_code, answer.json()["err_id"]) == (409, "ERR-PYOCO-0102")


async def test_workflow_files_and_installed_flows_have_separate_keys(
    submit: Submit, gateway: httpx.AsyncClient
) -> None:
    run_id = (await submit(key="k")).json()["run_id"]
    body = {"flow_name": "report"}
    other = await gateway.post("/runs", json=body, headers={"X-Idempotency-Key": "k"})
    assert other.status_code == 200
    assert other.json()["run_id"] != run_id


async def test_an_invalid_file_stores_nothing(submit: Submit, store: "Store") -> None:
    answer = await submit(INVALID)
    problem = answer.json()
    assert (answer.status_code, problem["err_id"]) == (422, "ERR-PYOCO-0002")
    assert [(each["code"], each["where"], each["line"]) for each in problem["problems"]] == [
        ("schema.unknown_key", "flow.colour", 3),
        ("schema.forbidden_key", "discovery", 6),
        ("graph.undefined_task", "flow.graph", 2),
    ]
    assert "flow.colour (line 3): is not a key" in problem["detail"]
    assert (await store.runs(), await store.jobs()) == ({}, [])
    assert (await store.js.stream_info("OBJ_pyoco_workflows")).state.messages == 0


async def test_validating_returns_the_same_errors_and_stores_nothing(
    gateway: httpx.AsyncClient, submit: Submit, store: "Store"
) -> None:
    refused = (await submit(INVALID)).json()["problems"]
    answer = await gateway.post("/runs/yaml/validate", files={"workflow": INVALID.encode()})
    assert (answer.status_code, answer.json()) == (200, {"valid": False, "problems": refused})
    answer = await gateway.post("/runs/yaml/validate", files={"workflow": VALID.encode()})
    assert (answer.status_code, answer.json()) == (200, {"valid": True, "problems": []})
    assert (await store.js.stream_info("OBJ_pyoco_workflows")).state.messages == 0


async def test_validating_needs_no_broker(start_gateway: "StartGateway") -> None:
    async with start_gateway("nats://127.0.0.1:1", wait=False) as gateway:
        files = {"workflow": VALID.encode()}
        answer = await gateway.post("/runs/yaml/validate", files=files)
        assert answer.json()["valid"] is True
        answer = await gateway.post("/runs/yaml", files=files, data={"flow_name": "x"})
        assert (answer.status_code, answer.json()["err_id"]) == (503, "ERR-PYOCO-0003")


async def test_defaults_above_the_limit_of_params_are_refused(submit: Submit) -> None:
    text = f'flow: {{graph: a, defaults: {{x: "{"y" * 200_000}"}}}}\ntasks: {{a: {{use: b}}}}'
    answer = await submit(text)
    assert (answer.status_code, answer.json()["err_id"]) == (413, "ERR-PYOCO-0101")


async def test_text_and_params_that_do_not_fit_into_one_message_are_refused(
    nats_server: NatsServer, start_gateway: "StartGateway"
) -> None:
    # Each is within its limit, but a line break takes two bytes in a job.
    text = VALID + "\n" * 900_000
    limit = {"PYOCO_WORKFLOW_YAML_MAX_BYTES": "950000"}
    async with start_gateway(nats_server.url, **limit) as gateway:
        answer = await gateway.post(
            "/runs/yaml", files={"workflow": text.encode()}, data={"flow_name": "x"}
        )
    assert (answer.status_code, answer.json()["err_id"]) == (413, "ERR-PYOCO-0016")


async def test_a_file_is_checked_outside_the_event_loop(
    gateway: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow(data: bytes, language: GraphLanguage) -> Workflow:
        started.set()
        assert go_on.wait(30)
        return read_workflow(data, language)

    monkeypatch.setattr(check_workflow, "read_workflow", slow)
    answers: list[Any] = []

    async def post() -> None:
        answers.append(
            await gateway.post("/runs/yaml/validate", files={"workflow": VALID.encode()})
        )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(post)
        await eventually(started.is_set, True)
        assert (await gateway.get("/health")).status_code == 200
        go_on.set()
    assert answers[0].json()["valid"] is True
