"""Secrets go in everywhere, through every route and failure, and come out nowhere."""

import json
import re
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import httpx
import nats
import pytest
from nats.js.errors import NotFoundError

from pyoco_testkit.api_key_stack import ApiKeyStack
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

PASSWORD: Final = "canary-of-the-broker-5d1f"
PEPPER: Final = "canary-pepper-77aa-0123456789"
PARAM: Final = "canary-of-the-params-9c3e"
QUERY: Final = "canary-of-the-query-41b0"
AUTHORIZATION: Final = "canary-of-the-header-e2d7"
WRONG_SECRET: Final = "CanaryOfAWrongKey".ljust(43, "x")
BROKER: Final = f"""
authorization {{
  users: [
    {{user: pyoco, password: "{PASSWORD}"}}
    {{user: anybody, password: "x"}}
  ]
}}
no_auth_user: anybody
"""
# Where params rest and travel, by design.
HOLDS_PARAMS: Final = {"KV_pyoco_runs", "PYOCO_WORK", "OBJ_pyoco_workflows"}
WORKFLOW: Final = f"""\
flow:
  graph: only
  defaults: {{secret: {PARAM}}}
tasks:
  only: {{callable: "nowhere:{PARAM.replace("-", "_")}"}}
"""


class LockedNats(NatsServer):
    """A broker that the system has a password for."""

    @property
    def url(self) -> str:
        """Where clients connect, with the password in it."""
        return f"nats://pyoco:{PASSWORD}@127.0.0.1:{self.port}"


@pytest.mark.timeout(120)
async def test_no_secret_comes_out_anywhere(flows: str) -> None:
    stack = ApiKeyStack(env={"PYOCO_AUTH_PEPPER": PEPPER, "PYOCO_LOG_LEVEL": "DEBUG"})
    stack.nats = LockedNats(stack.directory / "nats", config=BROKER)
    answers: list[httpx.Response] = []
    async with stack:
        http = stack.client.http
        key = http.headers["X-API-Key"]
        secrets = {
            "key": key.rpartition("_")[2],
            "wrong key": WRONG_SECRET,
            "pepper": PEPPER,
            "password": PASSWORD,
            "params": PARAM,
            "query": QUERY,
            "header": AUTHORIZATION,
        }
        async with stack.worker(flows=flows, concurrency=2) as worker:
            await run_everything(stack)
            paths = (await http.get("/openapi.json")).json()["paths"]
            answers += [answer async for answer in asked_everything(http, paths, key)]
            await stack.nats.stop()
            answers += [await http.post("/runs", json=submission("greet"))]
            answers += [answer async for answer in asked_everything(http, paths, key)]
            await stack.nats.restart()
            await eventually(lambda: takes_runs(http), True, timeout=20)
            pages = [(await http.get(path)).text for path in ("/metrics", "/health?verbose=1")]
            letters = json.dumps(await stack.dead_letters())
            streams = [item async for item in everything_stored(stack.nats.url)]
        log, worker_log = stack.gateway.log(), worker.log()

    statuses = {answer.status_code for answer in answers}
    assert {401, 403, 404, 405, 413, 415, 422, 503} <= statuses
    failed = [answer.text for answer in answers if answer.status_code >= httpx.codes.BAD_REQUEST]
    shown = {
        "the gateway's log": log,
        "the worker's log": worker_log,
        "an error": "\n".join(failed),
        "dead letters": letters,
        "metrics and health": "\n".join(pages),
    }
    leaks = [
        (what, where)
        for where, text in shown.items()
        for what, secret in secrets.items()
        if secret in text
    ]
    leaks += [
        (what, stream)
        for stream, text in streams
        for what, secret in secrets.items()
        if secret in text and not (what == "params" and stream in HOLDS_PARAMS)
    ]
    assert leaks == []
    # So that all of this was really looked at.
    assert {"KV_pyoco_runs", "KV_pyoco_auth", "KV_pyoco_workers", "PYOCO_DLQ"} <= {
        stream for stream, _ in streams
    }
    assert any(PARAM in text for stream, text in streams if stream == "KV_pyoco_runs")
    assert len(json.loads(letters)) >= 4
    assert log.count('"message":"request refused"') > 50
    assert worker_log.count('"message":"run failed"') == 4
    for answer in answers:
        if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            assert answer.json()["request_id"] == answer.headers["X-Request-ID"]
            assert not re.search(r"Traceback|File \\?\"|\.py", answer.text)


def submission(flow_name: str) -> dict[str, Any]:
    return {"flow_name": flow_name, "params": {"secret": PARAM, "deep": [{"a": PARAM}]}}


async def run_everything(stack: ApiKeyStack) -> None:
    """Have runs end in every way: well, failed, crashed, unknown, cancelled, not even a job."""
    client = stack.client
    ended = [
        (await client.http.post("/runs", json=submission(flow))).json()["run_id"]
        for flow in ("greet", "fail", "crash", "no-such-flow")
    ]
    form = {"workflow": WORKFLOW.encode(), "flow_name": b"made-up"}
    ended.append((await client.http.post("/runs/yaml", files=form)).json()["run_id"])
    waits = (await client.http.post("/runs", json={**submission("nap"), "tag": "nobody"})).json()
    await client.cancel(waits["run_id"])
    for run_id in ended:
        await client.wait(run_id)
    await stack.publish_job("default", json.dumps({"params": {"secret": PARAM}}).encode())
    await stack.publish_job("default", f'{{"run_id": "{uuid.uuid4()}", "params": "{PARAM}'.encode())
    await eventually(lambda: stack.message_count("PYOCO_DLQ"), lambda count: count >= 4)


async def asked_everything(
    http: httpx.AsyncClient, paths: Mapping[str, Any], key: str
) -> AsyncIterator[httpx.Response]:
    """Yield the answers of every route to requests that are wrong in some way."""
    wrong_key = f"{key[:-43]}{WRONG_SECRET}"
    credentials: list[dict[str, str]] = [
        {},
        {"X-API-Key": wrong_key},
        {"Authorization": f"Bearer {wrong_key}", "X-API-Key": ""},
        {"Authorization": f"Basic {AUTHORIZATION}", "X-API-Key": ""},
        {"X-API-Key": AUTHORIZATION},
    ]
    for path, operations in paths.items():
        at = re.sub(r"\{\w+\}", "00000000-0000-4000-8000-000000000000", path)
        for method in [*operations, "put"]:
            for headers in credentials:
                # Streams would go on.
                query = {"secret": QUERY, "timeout_sec": "0", "follow": QUERY, "limit": QUERY}
                yield await http.request(method.upper(), at, params=query, headers=headers)
            for content_type, body in bodies():
                yield await http.request(
                    method.upper(),
                    at,
                    content=body,
                    params={"timeout_sec": "0"},
                    headers={"Content-Type": content_type} if content_type else {},
                )


def bodies() -> Iterator[tuple[str | None, bytes]]:
    """Yield bodies that no route takes, each with a secret in it."""
    yield None, PARAM.encode()
    yield "text/plain", PARAM.encode()
    for body in (
        {"params": PARAM},
        # Names of fields are told, so that a typo can be found; values never are.
        {"parms": PARAM},
        {"flow_name": "f", "params": {"a": PARAM}, "tag": "a.b"},
        {"flow_name": [PARAM], "reason": [PARAM], "hidden": PARAM},
    ):
        yield "application/json", json.dumps(body).encode()
    yield "application/json", f'{{"flow_name": "f", "params": {{"a": "{PARAM}", "b"'.encode()
    yield "application/json", f'{{"a": "{PARAM}", "a": "{PARAM}"}}'.encode()
    yield "application/json", b'{"a": "' + PARAM.encode() * 100_000 + b'"}'
    yield "multipart/form-data; boundary=x", f"--x\r\n\r\n{PARAM}\r\n--x--".encode()


async def takes_runs(http: httpx.AsyncClient) -> bool:
    return (await http.post("/runs", json=submission("greet"))).status_code == httpx.codes.OK


async def everything_stored(url: str) -> AsyncIterator[tuple[str, str]]:
    """Yield what stands in the broker: the name of its stream, its subject, headers and data."""
    client = await nats.connect(url)
    try:
        js = client.jetstream()
        for info in await js.streams_info():
            name = info.config.name or ""
            for seq in range(max(info.state.first_seq, 1), info.state.last_seq + 1):
                try:
                    message = await js.get_msg(name, seq)
                except NotFoundError:
                    continue
                data = (message.data or b"").decode("utf-8", "replace")
                yield name, f"{message.subject} {message.headers} {data}"
    finally:
        await client.close()
