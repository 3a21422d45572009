from typing import Any

import pytest

from pyoco_client import (
    AsyncClient,
    Client,
    GatewayUnreachableError,
    IdempotencyConflictError,
    NotSupportedError,
    RunFailed,
    RunNotFoundError,
    RunNotOverError,
    RunStatus,
    TooManyRequestsError,
    WaitTimeoutError,
)
from pyoco_client.testing import FakeServer


@pytest.fixture
def fake() -> FakeServer:
    return FakeServer()


def test_a_scripted_flow_completes_with_its_result(fake: FakeServer) -> None:
    fake.on("hello", result=lambda params: {"greet": f"Hello, {params['name']}!"}, logs=["hi"])
    with fake.client() as client:
        run = client.submit("hello", {"name": "world"})
        assert run.get().status == "RUNNING"
        assert run.result() == {"greet": "Hello, world!"}
        assert [line.text for line in run.logs()] == ["hi"]
        assert [line.text for line in run.logs(follow=True)] == ["hi"]
        assert client.runs.counts().by_status[RunStatus.COMPLETED] == 1
    assert fake.submitted == [{"flow_name": "hello", "params": {"name": "world"}}]


def test_a_watch_sees_every_step(fake: FakeServer) -> None:
    fake.on("hello", result={})
    with fake.client() as client:
        states = [run.status for run in client.submit("hello").watch()]
    assert states == ["PENDING", "RUNNING", "COMPLETED"]


@pytest.mark.parametrize(("flow", "err_id"), [("broken", "0007"), ("unknown", "0006")])
def test_a_flow_fails_as_scripted_or_without_a_script(
    fake: FakeServer, flow: str, err_id: str
) -> None:
    fake.on("broken", error="ValueError: no")
    with fake.client() as client, pytest.raises(RunFailed) as caught:
        client.submit(flow).result()
    assert caught.value.err_id == f"ERR-PYOCO-{err_id}"


def test_a_flow_without_an_end_runs_until_it_is_cancelled(fake: FakeServer) -> None:
    fake.on("endless")
    with fake.client() as client:
        run = client.submit("endless")
        with pytest.raises(WaitTimeoutError):
            run.wait(timeout=0.2)
        with pytest.raises(RunNotOverError):
            run.delete()
        assert run.cancel(wait=True).status == "CANCELLED"
        run.delete()
        with pytest.raises(RunNotFoundError):
            run.get()


def test_failures_can_be_scripted(fake: FakeServer) -> None:
    fake.on("hello", result={})
    fake.fall_silent(2)
    with fake.client() as client:
        assert not client.submit("hello", idempotency_key="k").is_replay
        assert client.submit("hello", idempotency_key="k").is_replay
        with pytest.raises(IdempotencyConflictError):
            client.submit("hello", {"other": 1}, idempotency_key="k")
        fake.fall_silent()
        with pytest.raises(GatewayUnreachableError):
            client.submit("hello")
        fake.problem("GET /queues", 429, "ERR-PYOCO-0104")
        with pytest.raises(TooManyRequestsError):
            fake.client(deadline=0).queues.list()
    assert len(fake.submitted) == 1


def test_a_request_that_does_not_arrive_is_not_recorded(fake: FakeServer) -> None:
    fake.on("hello", result={})
    fake.fall_silent(arrives=False)
    with fake.client() as client:
        client.submit("hello")
    assert len(fake.requests) == 1


def test_the_answer_of_any_route_can_be_scripted(fake: FakeServer) -> None:
    letter = {"seq": 1, "timestamp": 1.0, "reason": "execution_error"}
    fake.answer("GET /dlq", {"items": [letter], "next_cursor": None})
    with fake.client() as client:
        assert [each.seq for each in client.dlq.iter()] == [1]
        assert client.dlq.list() == []
        with pytest.raises(NotSupportedError):
            client.dlq.show(1)
        assert client.health().status == "ok"
        assert "pyoco_workers_alive_total 1.0" in client.metrics()
        assert client.workers.get("fake-worker").tags == ("default",)


def test_a_run_of_a_workflow_file_is_scripted_too(fake: FakeServer) -> None:
    text = "flow:\n  graph: a\ntasks:\n  a: {callable: 'm:f'}\n"
    fake.on("挨拶", result={"a": 1})
    with fake.client() as client:
        assert client.validate_yaml(text).valid
        run = client.submit_yaml(text, flow="挨拶", tag="cpu", idempotency_key="k")
        assert client.submit_yaml(text, flow="挨拶", tag="cpu", idempotency_key="k").id == run.id
        assert run.result() == {"a": 1}
        with pytest.raises(NotSupportedError):
            next(client.runs.watch())
    assert fake.submitted == [{"flow_name": "挨拶", "tag": "cpu", "workflow": text}]


def test_lists_contain_the_submitted_runs(fake: FakeServer) -> None:
    fake.on("a", result={})
    with fake.client() as client:
        first, second = client.submit("a"), client.submit("b", tag="cpu")
        assert [run.run_id for run in client.runs.list()] == [second.id, first.id]
        assert [run.run_id for run in client.runs.iter(flow="a")] == [first.id]
        changes = client.runs.changes()
        assert [run.run_id for run in changes] == [second.id, first.id]
        assert [*changes] == []


async def test_the_async_client_sees_the_same_runs(fake: FakeServer) -> None:
    fake.on("hello", result={"greet": "Hi"})
    async with fake.async_client() as client:
        assert await (await client.submit("hello")).result() == {"greet": "Hi"}


async def test_a_client_with_the_transport_of_the_fake_uses_the_fake(fake: FakeServer) -> None:
    options: dict[str, Any] = {"transport": fake.transport}
    with Client("http://a", **options) as client:
        client.health()
    async with AsyncClient("http://b", **options) as other:
        await other.health()
    assert [request.path for request in fake.requests] == ["/health", "/health"]


def test_the_runs_of_the_fake_are_listed_newest_first_and_then_followed() -> None:
    fake = FakeServer()
    fake.on("hello", result={})
    with fake.client() as client:
        first, second = client.submit("hello"), client.submit("hello")
        first.get()
        changes = client.runs.changes()
        assert [run.run_id for run in changes] == [first.id, second.id]
        assert [*changes] == []
        second.get()
        assert [(run.run_id, run.status) for run in changes] == [(second.id, "RUNNING")]
        page = client.runs.page(order="created")
        assert [run.run_id for run in page.items] == [second.id, first.id]
        assert page.next_cursor is None
        assert client.runs.page(cursor=page.resume_cursor).items == ()
