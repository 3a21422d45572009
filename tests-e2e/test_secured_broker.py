"""With a broker user for each process, everything works and no user has excess permissions."""

import base64
import json
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import nats.errors
import pytest

from pyoco_testkit.eventually import eventually
from pyoco_testkit.secured_stack import SecuredStack, secured_stack
from pyoco_testkit.stack import Stack

TASKS = Path(__file__).parent / "flows" / "yaml_tasks.py"
YAML = """\
flow: {graph: greet}
tasks:
  greet: {callable: "yaml_tasks:greet", inputs: {name: world}}
"""
NAMES = {
    "PYOCO_WORK_STREAM": "ACME_WORK",
    "PYOCO_WORK_SUBJECT_PREFIX": "acme.jobs",
    "PYOCO_RUNS_KV_BUCKET": "acme_runs",
    "PYOCO_WORKERS_KV_BUCKET": "acme_workers",
    "PYOCO_DLQ_SUBJECT_PREFIX": "acme.dead",
    "PYOCO_RUN_LOG_SUBJECT_PREFIX": "acme.output",
}


@pytest.fixture
def modules(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a worker that can import `yaml_tasks`."""
    directory = tmp_path / "modules"
    directory.mkdir()
    shutil.copy(TASKS, directory)
    return {"PYTHONPATH": str(directory)}


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncGenerator[SecuredStack]:
    """Start a stack whose broker requires logins."""
    async with secured_stack(tmp_path, "--worker-tag", "cpu", "--worker-tag", "gpu") as running:
        yield running


def violations(secured: SecuredStack) -> list[str]:
    """Return the permission violations in the log of the broker."""
    return [line for line in secured.stack.nats.process.log().splitlines() if "Violation" in line]


async def items(stack: Stack, path: str) -> list[dict[str, Any]]:
    answer = await stack.client.http.get(path)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    found: list[dict[str, Any]] = body if isinstance(body, list) else body["items"]
    return found


async def watched(stack: Stack, run_id: str) -> str:
    """Watch a run until the stream ends, and return the last status."""
    status = ""
    with anyio.fail_after(20):
        async with stack.client.http.stream("GET", f"/runs/{run_id}/watch") as answer:
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "data" and "snapshot" in (event := json.loads(value)):
                    status = event["snapshot"]["status"]
    return status


async def test_all_features_work_without_a_permission_violation(
    secured: SecuredStack, flows: str, modules: dict[str, str], tmp_path: Path
) -> None:
    stack, needed = secured.stack, tmp_path / "needed"
    options = {"flows": flows, "concurrency": 2, "worker_id": "with.dots"}
    async with secured.worker("cpu", env=modules, **options) as worker:
        greeting = await stack.client.submit("greet", tag="cpu", params={"name": "Ada"})
        assert await watched(stack, greeting) == "COMPLETED"
        await check_cancel(stack)
        talk = await stack.client.submit("talk", tag="cpu", params={"until": str(tmp_path)})
        await stack.client.wait(talk)
        assert "done" in [item["text"] for item in await items(stack, f"/runs/{talk}/logs")]
        await check_workflow_file(stack)
        await check_redrive(stack, needed)
        await check_execution(stack)
        assert (await stack.client.http.delete(f"/runs/{talk}")).status_code == 204
        [known] = await items(stack, "/workers")
        assert known["worker_id"] == "with.dots"
        assert talk not in {run["run_id"] for run in await items(stack, "/runs")}
        await check_broker_restart(stack)
    # The worker was allowed to record its stop.
    [known] = await items(stack, "/workers?scope=all")
    assert known["state"] == "STOPPED_GRACEFUL"
    assert violations(secured) == []
    assert "broker denied" not in worker.log() + stack.gateway.log()


async def check_cancel(stack: Stack) -> None:
    run_id = await stack.client.submit("nap", tag="cpu", params={"seconds": 60})
    await eventually(lambda: stack.client.status(run_id), "RUNNING")
    await stack.client.cancel(run_id)
    assert (await stack.client.wait(run_id))["status"] == "CANCELLED"


async def check_workflow_file(stack: Stack) -> None:
    answer = await stack.client.http.post(
        "/runs/yaml",
        files={"workflow": ("flow.yaml", YAML)},
        data={"flow_name": "from-a-file", "tag": "cpu"},
    )
    assert answer.status_code == 200, answer.text
    assert (await stack.client.wait(answer.json()["run_id"]))["status"] == "COMPLETED"


async def check_redrive(stack: Stack, needed: Path) -> None:
    params = {"needs": str(needed), "ledger": str(needed.with_suffix(".ledger"))}
    run_id = await stack.client.submit("fragile", tag="cpu", params=params)
    assert (await stack.client.wait(run_id))["status"] == "FAILED"
    [letter] = await eventually(lambda: items(stack, "/dlq"), lambda found: len(found) == 1)
    assert (letter["run_id"], letter["reason"]) == (run_id, "execution_error")
    create_file(needed)
    answer = await stack.client.http.post(f"/dlq/{letter['seq']}/redrive")
    assert answer.status_code == 200, answer.text
    assert (await stack.client.wait(answer.json()["new_run_id"]))["status"] == "COMPLETED"


async def check_execution(stack: Stack) -> None:
    graph = {
        "nodes": [
            {"id": "start", "type": "Start"},
            {"id": "pack", "type": "Task"},
            {"id": "done", "type": "Success"},
        ],
        "edges": [{"from": "start", "to": "pack"}, {"from": "pack", "to": "done"}],
    }
    answer = await stack.client.http.put("/graphs/order", json=graph)
    assert answer.status_code == 201, answer.text
    body = await command(stack, "/executions", graphId="order", start=True)
    path = f"/executions/{body['executionId']}"
    await command(stack, f"{path}/nodes/pack/start", workerId="w")
    body = await command(stack, f"{path}/nodes/pack/success", output={"parcels": 2})
    assert body["status"] == "COMPLETED"
    assert [each["status"] for each in await items(stack, "/executions")] == ["COMPLETED"]


async def command(stack: Stack, path: str, **body: Any) -> dict[str, Any]:
    headers = {"X-Idempotency-Key": path}
    answer = await stack.client.http.post(path, json=body, headers=headers)
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


def create_file(needed: Path) -> None:
    needed.touch()


async def check_broker_restart(stack: Stack) -> None:
    """Restart the broker; gateway and worker must log in again."""
    await stack.nats.restart()
    run_id = await eventually(
        lambda: stack.client.submit("greet", tag="cpu"), bool, retry_on=(AssertionError,)
    )
    assert (await stack.client.wait(run_id))["status"] == "COMPLETED"


async def test_custom_names_and_a_worker_with_two_tags_work(tmp_path: Path, flows: str) -> None:
    arguments = ("--worker", "all=cpu,gpu", "--sign-jobs")
    async with secured_stack(tmp_path, *arguments, env=NAMES) as secured:
        login = secured.logins["worker-all"]
        async with secured.stack.worker("cpu,gpu", env=login, flows=flows) as worker:
            for tag in ("cpu", "gpu"):
                run_id = await secured.stack.client.submit("greet", tag=tag)
                assert (await secured.stack.client.wait(run_id))["status"] == "COMPLETED"
        assert violations(secured) == []
        for secret in ("PYOCO_NATS_PASSWORD", "PYOCO_JOB_SIGNING_KEY"):
            assert login[secret] not in worker.log() + secured.stack.gateway.log()


API = "$JS.API"
WORKER_MUST_NOT_PUBLISH = {
    "forge a job of its own tag": "pyoco.work.cpu",
    "forge a job of another tag": "pyoco.work.gpu",
    "take the jobs of another tag": f"{API}.CONSUMER.MSG.NEXT.PYOCO_WORK.pyoco_workers_gpu",
    "look at the queue of another tag": f"{API}.CONSUMER.INFO.PYOCO_WORK.pyoco_workers_gpu",
    "settle a job of another tag": "$JS.ACK.PYOCO_WORK.pyoco_workers_gpu.1.1.1.1.0",
    "make a queue": f"{API}.CONSUMER.CREATE.PYOCO_WORK.mine.pyoco.work.gpu",
    "recreate its own queue": (
        f"{API}.CONSUMER.CREATE.PYOCO_WORK.pyoco_workers_cpu.pyoco.work.cpu"
    ),
    "delete a queue": f"{API}.CONSUMER.DELETE.PYOCO_WORK.pyoco_workers_cpu",
    "read a waiting job": f"{API}.STREAM.MSG.GET.PYOCO_WORK",
    "remove a waiting job": f"{API}.STREAM.MSG.DELETE.PYOCO_WORK",
    "read the keys": f"{API}.STREAM.MSG.GET.KV_pyoco_auth",
    "read the keys directly": f"{API}.DIRECT.GET.KV_pyoco_auth.$KV.pyoco_auth.key",
    "watch the keys": f"{API}.CONSUMER.CREATE.KV_pyoco_auth.mine",
    "write a key": "$KV.pyoco_auth.key",
    "read any run": f"{API}.STREAM.MSG.GET.KV_pyoco_runs",
    "read any worker": f"{API}.STREAM.MSG.GET.KV_pyoco_workers",
    "read a run directly": f"{API}.DIRECT.GET.KV_pyoco_runs.$KV.pyoco_runs.a-run",
    "read a run of another tag": "pyoco.read.pyoco_runs.gpu.a-run",
    "read a run of any tag": "pyoco.read.pyoco_runs.*.a-run",
    "watch all runs": f"{API}.CONSUMER.CREATE.KV_pyoco_runs.mine",
    "delete a stream": f"{API}.STREAM.DELETE.PYOCO_WORK",
    "purge a stream": f"{API}.STREAM.PURGE.KV_pyoco_runs",
    "change a stream": f"{API}.STREAM.UPDATE.PYOCO_WORK",
    "make a stream": f"{API}.STREAM.CREATE.MINE",
    "list the streams": f"{API}.STREAM.NAMES",
    "write a dead letter of another tag": "pyoco.dlq.gpu",
    "read dead letters": f"{API}.STREAM.MSG.GET.PYOCO_DLQ",
    "read the output of runs": f"{API}.STREAM.MSG.GET.PYOCO_RUN_LOGS",
    "store a workflow": "$O.pyoco_workflows.C.mine",
    "write a commit of an execution": "pyoco.exec.an-execution",
    "read the commits of executions": f"{API}.STREAM.MSG.GET.PYOCO_EXECUTIONS",
    "watch the commits of executions": f"{API}.CONSUMER.CREATE.PYOCO_EXECUTIONS.mine",
    "purge an execution": f"{API}.STREAM.PURGE.PYOCO_EXECUTIONS",
    "write a graph": "pyoco.graph.default.a-graph",
    "read the graphs": f"{API}.STREAM.MSG.GET.PYOCO_GRAPHS",
    "write a checkpoint": "$KV.pyoco_exec_checkpoints.an-execution.000001000",
    "send a cancel hint as the gateway": "pyoco.hint.cancel.cpu.another-run",
    "answer the gateway": "_INBOX_gateway.x.y",
    "answer another worker": "_INBOX_worker-gpu.x.y",
}
WORKER_MUST_NOT_SUBSCRIBE = {
    "jobs as they are queued": "pyoco.work.>",
    "runs as they change": "$KV.pyoco_runs.>",
    "keys as they change": "$KV.pyoco_auth.>",
    "output of runs": "pyoco.logs.*",
    "dead letters": "pyoco.dlq.>",
    "commits of executions": "pyoco.exec.*",
    "graphs": "pyoco.graph.>",
    "reads of other workers": "pyoco.read.>",
    "cancels of another tag": "pyoco.hint.cancel.gpu.*",
    "cancels of every tag": "pyoco.hint.cancel.*.*",
    "cancels, as an earlier version announced them": "pyoco.hint.cancel.*",
    "answers to the gateway": "_INBOX_gateway.>",
    "answers to other workers": "_INBOX_worker-gpu.>",
    "the library's usual inbox": "_INBOX.>",
    "requests to JetStream": "$JS.API.>",
    "everything": ">",
}


async def test_a_worker_can_only_publish_and_subscribe_to_its_own_subjects(
    secured: SecuredStack,
) -> None:
    queue = f"{API}.CONSUMER.INFO.PYOCO_WORK.pyoco_workers_cpu"
    async with secured.client_of("worker-cpu") as (client, denied):
        for subject in WORKER_MUST_NOT_PUBLISH.values():
            await client.publish(subject, b"{}", reply=client.new_inbox())
        for subject in WORKER_MUST_NOT_SUBSCRIBE.values():
            await client.subscribe(subject)
        # The answer to this permitted request comes after all violations.
        assert json.loads((await client.request(queue, timeout=5)).data)["name"]
    assert denied == [
        *(violation("publish", subject) for subject in WORKER_MUST_NOT_PUBLISH.values()),
        *(violation("subscription", subject) for subject in WORKER_MUST_NOT_SUBSCRIBE.values()),
    ]


def violation(action: str, subject: str) -> str:
    return f'nats: permissions violation for {action} to "{subject.lower()}"'


async def test_a_worker_cannot_redirect_an_answer_to_a_subject_it_may_not_write(
    secured: SecuredStack,
) -> None:
    """A requester chooses the reply subject, which could be a queue of jobs."""
    run_id = await secured.stack.client.submit("greet", tag="cpu")
    await secured.stack.client.submit("greet", tag="gpu")
    reads = f"pyoco.read.pyoco_runs.cpu.{run_id}"
    async with (
        secured.client_of("worker-cpu") as (client, _),
        secured.client_of("worker-gpu") as (other, _),
    ):
        for target in ("pyoco.work.gpu", "$KV.pyoco_auth.key", "pyoco.dlq.gpu"):
            await client.publish(f"{API}.INFO", reply=target)
            await client.publish(reads, reply=target)
        # The answer to an acknowledgement is an empty message, which itself means acknowledgement.
        mine, theirs = await pull_job(client, "cpu"), await pull_job(other, "gpu")
        await client.publish(mine.reply, b"+ACK", reply=theirs.reply)
        # The answers to these requests come after all answers above: the broker answers in order,
        # and a gateway answers up to 16 requests at a time.
        assert (await client.request(f"{API}.INFO", timeout=5)).data
        for _ in range(20):
            assert run_id.encode() in (await client.request(reads, timeout=5)).data
        assert json.loads(theirs.data)["tag"] == "gpu"
    async with secured.client_of("gateway") as (client, _):
        queue = await js_api(client, "CONSUMER.INFO.PYOCO_WORK.pyoco_workers_gpu")
        assert queue["num_ack_pending"] == 1
        for stream, messages in (("PYOCO_WORK", 2), ("PYOCO_DLQ", 0)):
            info = await js_api(client, f"STREAM.INFO.{stream}")
            assert info["state"]["messages"] == messages, stream


async def pull_job(client: Any, tag: str) -> Any:
    """Pull a job as a worker of this tag does."""
    pull = json.dumps({"batch": 1, "expires": 5 * 10**9}).encode()
    subject = f"{API}.CONSUMER.MSG.NEXT.PYOCO_WORK.pyoco_workers_{tag}"
    inbox = client.new_inbox()
    jobs = await client.subscribe(inbox)
    await client.publish(subject, pull, reply=inbox)
    return await jobs.next_msg(timeout=5)


async def js_api(client: Any, question: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((await client.request(f"{API}.{question}", timeout=5)).data)
    return answer


async def test_the_broker_refuses_clients_without_login_or_tls(secured: SecuredStack) -> None:
    address = secured.stack.nats.url
    login = secured.logins["worker-cpu"]
    user, password = login["PYOCO_NATS_USER"], login["PYOCO_NATS_PASSWORD"]
    attempts: list[dict[str, Any]] = [
        {},
        {"user": user, "password": "guessed"},
        {"user": user, "password": password, "tls": None},
    ]
    for attempt in attempts:
        options = {"tls": secured.tls_context(), **attempt}
        with pytest.raises((nats.errors.Error, OSError)):
            await nats.connect(address, allow_reconnect=False, connect_timeout=2, **options)


async def test_a_run_ends_and_is_recorded_while_no_gateway_runs(
    secured: SecuredStack, flows: str, tmp_path: Path
) -> None:
    """A worker needs a gateway to read a record, but not to write that of its own run."""
    params = {"until": str(tmp_path / "until")}
    async with secured.worker("cpu", flows=flows):
        run_id = await secured.stack.client.submit("talk", tag="cpu", params=params)
        await eventually(lambda: secured.stack.client.status(run_id), "RUNNING")
        secured.stack.gateway.terminate()
        await secured.stack.gateway.wait()
        create_file(tmp_path / "until")
        async with secured.client_of("gateway") as (client, _):
            await eventually(lambda: stored_status(client, run_id), "COMPLETED")


async def stored_status(client: Any, run_id: str) -> str:
    """Return the status of a run from its record."""
    wanted = json.dumps({"last_by_subj": f"$KV.pyoco_runs.{run_id}"}).encode()
    answer = await client.request(f"{API}.STREAM.MSG.GET.KV_pyoco_runs", wanted, timeout=5)
    record = json.loads(base64.b64decode(json.loads(answer.data)["message"]["data"]))
    return str(record["status"])
