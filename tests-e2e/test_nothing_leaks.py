"""No secret in a request appears in logs, errors, dead letters, metrics or streams."""

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
    {{user: anonymous, password: "x"}}
  ]
}}
no_auth_user: anonymous
"""
# Streams that contain params by design.
HOLDS_PARAMS: Final = {"KV_pyoco_runs", "PYOCO_WORK", "OBJ_pyoco_workflows"}
WORKFLOW: Final = f"""\
flow:
  graph: only
  defaults: {{secret: {PARAM}}}
tasks:
  only: {{callable: "nowhere:{PARAM.replace("-", "_")}"}}
"""


class PasswordNats(NatsServer):
    """A broker that requires a password."""

    @property
    def url(self) -> str:
        """The URL for clients, including the password."""
        return f"nats://pyoco:{PASSWORD}@127.0.0.1:{self.port}"


@pytest.mark.timeout(120)
async def test_no_secret_appears_anywhere(flows: str) -> None:
    stack = ApiKeyStack(env={"PYOCO_AUTH_PEPPER": PEPPER, "PYOCO_LOG_LEVEL": "DEBUG"})
    stack.nats = PasswordNats(stack.directory / "nats", config=BROKER)
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
            answers += [answer async for answer in bad_requests(http, paths, key)]
            await stack.nats.stop()
            answers += [await http.post("/runs", json=submission("greet"))]
            answers += [answer async for answer in bad_requests(http, paths, key)]
            await stack.nats.restart()
            await eventually(lambda: accepts_runs(http), True, timeout=20)
            pages = [(await http.get(path)).text for path in ("/metrics", "/health?verbose=1")]
            letters = json.dumps(await stack.dead_letters())
            streams = [item async for item in stored_messages(stack.nats.url)]
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
        (name, place)
        for place, text in shown.items()
        for name, secret in secrets.items()
        if secret in text
    ]
    leaks += [
        (name, stream)
        for stream, text in streams
        for name, secret in secrets.items()
        if secret in text and not (name == "params" and stream in HOLDS_PARAMS)
    ]
    assert leaks == []
    # The checks above really covered all of this.
    assert {"KV_pyoco_runs", "KV_pyoco_auth", "KV_pyoco_workers", "PYOCO_DLQ"} <= {
        stream for stream, _ in streams
    }
    assert any(PARAM in text for stream, text in streams if stream == "KV_pyoco_runs")
    assert len(json.loads(letters)) >= 4
    assert log.count('"message":"request refused"') > 50
    assert worker_log.count('"message":"run failed"') == 4
    for answer in answers:
        if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            assert request_id_in(answer.json()) == answer.headers["X-Request-ID"]
            assert not re.search(r"Traceback|File \\?\"|\.py", answer.text)


def submission(flow_name: str) -> dict[str, Any]:
    return {"flow_name": flow_name, "params": {"secret": PARAM, "deep": [{"a": PARAM}]}}


async def run_everything(stack: ApiKeyStack) -> None:
    """Produce runs that complete, fail, crash or are cancelled, unknown flows and invalid jobs."""
    client = stack.client
    ended = [
        (await client.http.post("/runs", json=submission(flow))).json()["run_id"]
        for flow in ("greet", "fail", "crash", "no-such-flow")
    ]
    form = {"workflow": WORKFLOW.encode(), "flow_name": b"made-up"}
    ended.append((await client.http.post("/runs/yaml", files=form)).json()["run_id"])
    waits = (await client.http.post("/runs", json={**submission("nap"), "tag": "unserved"})).json()
    await client.cancel(waits["run_id"])
    for run_id in ended:
        await client.wait(run_id)
    await stack.publish_job("default", json.dumps({"params": {"secret": PARAM}}).encode())
    await stack.publish_job("default", f'{{"run_id": "{uuid.uuid4()}", "params": "{PARAM}'.encode())
    await eventually(lambda: stack.message_count("PYOCO_DLQ"), lambda count: count >= 4)


def request_id_in(body: Mapping[str, Any]) -> str:
    """Return the request id in the body of an error, in either of its two forms."""
    request_id: str = (
        body["error"]["details"]["requestId"] if "error" in body else body["request_id"]
    )
    return request_id


async def bad_requests(
    http: httpx.AsyncClient, paths: Mapping[str, Any], key: str
) -> AsyncIterator[httpx.Response]:
    """Yield the answers of every route to invalid requests."""
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
                # The timeout keeps streams short.
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
    """Yield invalid bodies, each with a secret in it."""
    yield None, PARAM.encode()
    yield "text/plain", PARAM.encode()
    for body in (
        {"params": PARAM},
        # Errors name unknown fields, but never contain values.
        {"parms": PARAM},
        {"flow_name": "f", "params": {"a": PARAM}, "tag": "a.b"},
        {"flow_name": [PARAM], "reason": [PARAM], "hidden": PARAM},
    ):
        yield "application/json", json.dumps(body).encode()
    yield "application/json", f'{{"flow_name": "f", "params": {{"a": "{PARAM}", "b"'.encode()
    yield "application/json", f'{{"a": "{PARAM}", "a": "{PARAM}"}}'.encode()
    yield "application/json", b'{"a": "' + PARAM.encode() * 100_000 + b'"}'
    yield "multipart/form-data; boundary=x", f"--x\r\n\r\n{PARAM}\r\n--x--".encode()


async def accepts_runs(http: httpx.AsyncClient) -> bool:
    return (await http.post("/runs", json=submission("greet"))).status_code == httpx.codes.OK


async def stored_messages(url: str) -> AsyncIterator[tuple[str, str]]:
    """Yield each message in the broker: stream name, then subject, headers and data."""
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
