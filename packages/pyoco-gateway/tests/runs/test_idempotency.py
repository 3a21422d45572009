"""`X-Idempotency-Key` on `POST /runs`: the same key with the same body is the same run."""

from typing import Any

import anyio
import httpx
import pytest

from pyoco_testkit.nats_server import NatsServer

BODY = {"flow_name": "hello", "params": {"n": 1}}


async def submit(
    gateway: httpx.AsyncClient, key: str, body: dict[str, Any] = BODY
) -> httpx.Response:
    return await gateway.post("/runs", json=body, headers={"X-Idempotency-Key": key})


async def test_a_repeated_submission_gets_the_same_response(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    first = await submit(gateway, "order-7")
    again = await submit(gateway, "order-7")
    assert first.status_code == again.status_code == 200
    assert first.json() == again.json()
    assert first.json()["status"] == "PENDING"
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    (job,) = await store.jobs()
    (record,) = (await store.runs()).values()
    assert job.headers["Nats-Msg-Id"] == f"{record['run_id']}:{record['submitted_at']}"
    # Only a hash of the request is stored.
    assert len(record["request_hash"]) == 64


async def test_field_order_and_whitespace_do_not_matter(
    gateway: httpx.AsyncClient,
) -> None:
    headers = {"X-Idempotency-Key": "k", "Content-Type": "application/json"}
    bodies = [
        b'{"flow_name":"f","params":{"a":1,"b":"\\u4e16"}}',
        '{ "params": {"b": "世", "a": 1},\n "flow_name": "f" }'.encode(),
    ]
    answers = [await gateway.post("/runs", content=body, headers=headers) for body in bodies]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()


async def test_another_body_with_the_same_key_is_refused(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    first = await submit(gateway, "order-7")
    other = await submit(gateway, "order-7", {"flow_name": "hello", "params": {"n": 2}})
    assert (other.status_code, other.json()["err_id"]) == (409, "ERR-PYOCO-0102")
    assert list(await store.runs()) == [first.json()["run_id"]]
    assert len(await store.jobs()) == 1


async def test_without_a_key_equal_submissions_make_two_runs(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    for _ in range(2):
        assert (await gateway.post("/runs", json=BODY)).status_code == 200
    assert len(await store.runs()) == len(await store.jobs()) == 2


@pytest.mark.parametrize(
    "key", ["a", "x" * 255, "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4", "a b/c:>*"]
)
async def test_a_key_may_be_any_printable_text(gateway: httpx.AsyncClient, key: str) -> None:
    first = await submit(gateway, key)
    assert first.status_code == 200
    assert (await submit(gateway, key)).json() == first.json()


@pytest.mark.parametrize("key", [b"", b"x" * 256, b"a\tb", b"\x80"])
async def test_an_invalid_key_is_refused(
    gateway: httpx.AsyncClient, store: Any, key: bytes
) -> None:
    answer = await gateway.post("/runs", json=BODY, headers=[(b"X-Idempotency-Key", key)])
    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0002")
    assert "X-Idempotency-Key" in answer.json()["detail"]
    assert await store.runs() == {}


async def test_twenty_concurrent_submissions_to_two_gateways_make_one_run(
    nats_server: NatsServer, gateway: httpx.AsyncClient, start_gateway: Any, store: Any
) -> None:
    answers: list[httpx.Response] = []

    async def send(through: httpx.AsyncClient) -> None:
        answers.append(await submit(through, "order-7"))

    async with start_gateway(nats_server.url) as other, anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(send, gateway if number % 2 else other)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["run_id"] for answer in answers}) == 1
    assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
    assert len(await store.runs()) == len(await store.jobs()) == 1


async def test_a_repeat_is_recognised_after_restarts_of_gateway_and_broker(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    async with start_gateway(nats_server.url) as first:
        run_id = (await submit(first, "order-7")).json()["run_id"]
    nats_server.kill()
    await nats_server.restart()
    async with start_gateway(nats_server.url) as second:
        again = await submit(second, "order-7")
        changed = await submit(second, "order-7", {"flow_name": "bye"})
    assert (again.json()["run_id"], again.headers["Idempotency-Replayed"]) == (run_id, "true")
    assert changed.status_code == 409
    assert list(await store.runs()) == [run_id]


async def test_repeating_the_submission_of_a_cancelled_run_does_not_start_it(
    gateway: httpx.AsyncClient,
) -> None:
    run_id = (await submit(gateway, "order-7")).json()["run_id"]
    await gateway.post(f"/runs/{run_id}/cancel")
    again = await submit(gateway, "order-7")
    assert again.json() == {"run_id": run_id, "status": "PENDING"}
    assert (await gateway.get(f"/runs/{run_id}")).json()["status"] in ("CANCELLING", "CANCELLED")


async def test_the_key_is_part_of_the_openapi_description(gateway: httpx.AsyncClient) -> None:
    operation = (await gateway.get("/openapi.json")).json()["paths"]["/runs"]["post"]
    parameters = [(each["in"], each["name"]) for each in operation["parameters"]]
    assert ("header", "X-Idempotency-Key") in parameters
    assert "409" in operation["responses"]
