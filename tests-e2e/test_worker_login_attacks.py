"""The login of a worker gives access to no record that the worker cannot name."""

import base64
import json
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from pyoco_testkit.secured_stack import SecuredStack, secured_stack

API: Final = "$JS.API"
SECRET: Final = "the-secret-of-the-tag-gpu"
OTHER_WORKER: Final = "gpu.worker-1"
YAML: Final = f"""\
flow: {{graph: greet}}
tasks:
  greet: {{callable: "yaml_tasks:greet", inputs: {{name: {SECRET}}}}}
"""
WORKER_RECORD: Final = {
    "worker_id": OTHER_WORKER,
    "state": "RUNNING",
    "last_seen_at": 1.0,
    "last_heartbeat_at": 1.0,
    "hidden": True,
}
# Each stream with subjects of it: a pattern of everything, and more patterns that match something.
# A server accepts a message to a subject with a literal `*` or `>`.
STREAMS: Final = {
    "KV_pyoco_runs": ("$KV.pyoco_runs.>", "$KV.pyoco_runs.*"),
    "KV_pyoco_workers": ("$KV.pyoco_workers.>", "$KV.pyoco_workers.*", "$KV.pyoco_workers.*.*"),
    "KV_pyoco_auth": ("$KV.pyoco_auth.>", "$KV.pyoco_auth.*"),
    "PYOCO_WORK": ("pyoco.work.>", "pyoco.work.*", "pyoco.work.gpu"),
    "PYOCO_DLQ": ("pyoco.dlq.>", "pyoco.dlq.*", "pyoco.dlq.gpu"),
    "PYOCO_RUN_LOGS": ("pyoco.logs.>", "pyoco.logs.*"),
    "OBJ_pyoco_workflows": ("$O.pyoco_workflows.>", "$O.pyoco_workflows.C.>"),
}


@dataclass(frozen=True)
class Attacked:
    """A secured stack with data of the tag `gpu` in every stream, and what must not be seen."""

    secured: SecuredStack
    run_id: str
    secrets: tuple[bytes, ...]


@pytest.fixture
async def attacked(tmp_path: Path) -> AsyncGenerator[Attacked]:
    """Store data of the tag `gpu` and an API key record; nothing of the tag `cpu`."""
    tags = ("--worker-tag", "cpu", "--worker-tag", "gpu")
    async with secured_stack(tmp_path, *tags) as secured:
        client = secured.stack.client
        run_id = await client.submit("greet", tag="gpu", params={"name": SECRET})
        answer = await client.http.post(
            "/runs/yaml",
            files={"workflow": ("flow.yaml", YAML)},
            data={"flow_name": "from-a-file", "tag": "gpu"},
        )
        assert answer.status_code == 200, answer.text
        async with secured.client_of("worker-gpu") as (other, _):
            for subject in (
                f"pyoco.logs.{run_id}",
                "pyoco.dlq.gpu",
                "$KV.pyoco_workers.gpu-worker-2",
            ):
                assert (await other.request(subject, SECRET.encode(), timeout=5)).data
            record = json.dumps(
                {**WORKER_RECORD, "current_run_ids": [run_id], "last_run_id": run_id}
            )
            await other.request(f"$KV.pyoco_workers.{OTHER_WORKER}", record.encode(), timeout=5)
        async with secured.client_of("gateway") as (gateway, _):
            config = {"name": "KV_pyoco_auth", "subjects": ["$KV.pyoco_auth.>"]}
            create = f"{API}.STREAM.CREATE.KV_pyoco_auth"
            await gateway.request(create, json.dumps(config).encode(), timeout=5)
            await gateway.request("$KV.pyoco_auth.key", SECRET.encode(), timeout=5)
            # The attack below would prove nothing if there were nothing to find.
            for stream, (everything, *_) in STREAMS.items():
                wanted = json.dumps({"last_by_subj": everything}).encode()
                found = await gateway.request(f"{API}.STREAM.MSG.GET.{stream}", wanted, timeout=5)
                assert json.loads(found.data)["message"]["seq"], stream
        yield Attacked(secured, run_id, (SECRET.encode(), run_id.encode()))


def attacks(inbox: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all requests that could read a stored message, list one, or have one delivered."""
    for stream, patterns in STREAMS.items():
        for name in (stream, "*", ">"):
            for request in reads(patterns):
                yield f"{API}.STREAM.MSG.GET.{name}", request
                yield f"{API}.DIRECT.GET.{name}", request
            for question in ("INFO", "SNAPSHOT", "NAMES", "LIST"):
                yield f"{API}.STREAM.{question}.{name}", {"subjects_filter": ">"}
            for question in ("NAMES", "LIST"):
                yield f"{API}.CONSUMER.{question}.{name}", {}
        for pattern in patterns:
            for request in ({}, *reads(patterns)):
                yield f"{API}.DIRECT.GET.{stream}.{pattern}", request
            yield from consumers(stream, pattern, inbox)
    for prefix in ("$JS.hub.API", "$JS.*.API", "$JS..API"):
        for request in reads(STREAMS["KV_pyoco_runs"]):
            yield f"{prefix}.STREAM.MSG.GET.KV_pyoco_runs", request
    for question in ("STREAM.NAMES", "STREAM.LIST", "ACCOUNT.PURGE.PYOCO"):
        yield f"{API}.{question}", {}


def reads(patterns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    yield {"seq": 1}
    for pattern in patterns:
        yield {"last_by_subj": pattern}
        yield {"seq": 1, "next_by_subj": pattern}
        yield {"seq": 1, "next_by_subj": pattern, "batch": 100}
        yield {"multi_last": [pattern]}


def consumers(stream: str, pattern: str, inbox: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for config in ({"deliver_subject": inbox}, {}):
        wanted: dict[str, Any] = {
            "stream_name": stream,
            "config": {
                **config,
                "name": "mine",
                "ack_policy": "none",
                "filter_subject": pattern,
            },
        }
        durable = {**wanted, "config": {**wanted["config"], "durable_name": "mine"}}
        yield f"{API}.CONSUMER.CREATE.{stream}", wanted
        yield f"{API}.CONSUMER.CREATE.{stream}.mine", wanted
        yield f"{API}.CONSUMER.CREATE.{stream}.mine.{pattern}", wanted
        yield f"{API}.CONSUMER.DURABLE.CREATE.{stream}.mine", durable
    yield f"{API}.CONSUMER.MSG.NEXT.{stream}.mine", {"batch": 100, "no_wait": True}
    yield f"{API}.CONSUMER.MSG.NEXT.{stream}.*", {"batch": 100, "no_wait": True}
    yield f"{API}.CONSUMER.MSG.NEXT.{stream}.pyoco_workers_gpu", {"batch": 100, "no_wait": True}


async def test_no_request_to_jetstream_shows_a_worker_a_record_that_it_cannot_name(
    attacked: Attacked,
) -> None:
    async with attacked.secured.client_of("worker-cpu") as (client, denied):
        inbox = client.new_inbox()
        received: list[Any] = []

        async def receive(message: Any) -> None:
            received.append(message)

        asked: dict[str, str] = {}
        await client.subscribe(f"{inbox}.>", cb=receive)
        for number, (subject, request) in enumerate(attacks(f"{inbox}.delivered")):
            asked[f"{inbox}.{number}"] = f"{subject} {json.dumps(request)}"
            await client.publish(subject, json.dumps(request).encode(), reply=f"{inbox}.{number}")
        # The answer to this permitted request comes after all answers of the server.
        queue = f"{API}.CONSUMER.INFO.PYOCO_WORK.pyoco_workers_cpu"
        assert json.loads((await client.request(queue, timeout=5)).data)["name"]
    seen = {
        asked.get(message.subject, "delivered")
        for message in received
        if any(secret in plain(message) for secret in attacked.secrets)
    }
    assert sorted(seen) == []
    assert len(denied) == len(asked), "each of these requests is denied"


def plain(message: Any) -> bytes:
    """Return an answer with the stored message in it decoded."""
    try:
        stored = json.loads(message.data)["message"]
    except (ValueError, KeyError, TypeError):
        return bytes(message.data)
    return str(stored["subject"]).encode() + base64.b64decode(stored.get("data") or "")


def of_worker(worker_id: str) -> str:
    return f"pyoco.read.pyoco_workers.{worker_id.encode().hex()}"


async def test_a_gateway_shows_a_worker_only_runs_of_its_tags_and_only_by_id(
    attacked: Attacked,
) -> None:
    mine = await attacked.secured.stack.client.submit("greet", tag="cpu", params={"name": "Ada"})
    unknown = b'{"revision": 0}'
    by_id = "pyoco.read.pyoco_runs.cpu"
    async with attacked.secured.client_of("worker-cpu") as (client, denied):

        async def answer_to(subject: str, request: object = None) -> bytes:
            body = b"" if request is None else json.dumps(request).encode()
            return bytes((await client.request(subject, body, timeout=5)).data)

        assert b'"Ada"' in await answer_to(f"{by_id}.{mine}")
        assert await answer_to(f"{by_id}.{attacked.run_id}") == unknown
        for token in ("*", ">", "**", mine.upper(), f"{mine}*"):
            assert await answer_to(f"{by_id}.{token}") == unknown, token
        for request in reads(STREAMS["KV_pyoco_runs"]):
            assert SECRET.encode() not in await answer_to(f"{by_id}.{mine}", request)
        shown = await answer_to(of_worker(OTHER_WORKER))
        assert b'"hidden":true' in shown
        assert not any(secret in shown for secret in attacked.secrets)
        for subject in (
            "pyoco.read.pyoco_workers.*",
            "pyoco.read.pyoco_workers.>",
            of_worker("*"),
            of_worker(">"),
            of_worker("gpu.*"),
        ):
            assert await answer_to(subject) == unknown, subject
        # A record that cannot be read.
        assert SECRET.encode() not in await answer_to(of_worker("gpu-worker-2"))
        assert denied == []


async def test_records_under_wildcard_keys_leave_the_other_records_alone(
    attacked: Attacked,
) -> None:
    """A worker may write to keys that look like patterns, and the server stores them so."""
    stack = attacked.secured.stack
    run = await stack.client.get(attacked.run_id)
    async with attacked.secured.client_of("worker-cpu") as (client, _):
        for key in ("*", ">"):
            for status in ("RUNNING", "COMPLETED"):
                forged = json.dumps({**run, "run_id": key, "status": status}).encode()
                await client.request(f"$KV.pyoco_runs.{key}", forged, timeout=5)
            forged = json.dumps({**WORKER_RECORD, "worker_id": key}).encode()
            await client.request(f"$KV.pyoco_workers.{key}", forged, timeout=5)
    accepted = await stack.client.submit("greet", tag="gpu")
    for path in ("/runs", "/workers?scope=all", "/runs/counts", "/metrics"):
        assert (await stack.client.http.get(path)).status_code == 200, path
    assert (await stack.client.http.post("/runs/*/cancel")).status_code == 404
    assert await stack.client.get(attacked.run_id) == run
    assert await stack.client.status(accepted) == "PENDING"
