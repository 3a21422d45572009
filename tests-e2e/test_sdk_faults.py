"""The SDK during failures of gateways, brokers and connections."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from pyoco_client import (
    AsyncClient,
    BrokerUnavailableError,
    Client,
    GatewayUnreachableError,
    RunStatus,
)
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack


class Wire:
    """A proxy to the gateway that can cut connections."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.url = ""
        # When to cut each of the next connections; later connections are not cut.
        self.cuts: list[Callable[[bytes, bytes], bool]] = []
        # The bytes that each connection has sent to the gateway so far.
        self.requests: list[bytearray] = []

    @asynccontextmanager
    async def open(self) -> AsyncGenerator["Wire"]:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - not a database query
        self.url = f"http://127.0.0.1:{port}"
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self._serve)
            yield self
            tasks.cancel_scope.cancel()

    async def _serve(self, caller: SocketStream) -> None:
        cut = self.cuts.pop(0) if self.cuts else None
        async with caller, await anyio.connect_tcp("127.0.0.1", self.target) as gateway:
            sent, received = bytearray(), bytearray()
            self.requests.append(sent)

            def over() -> bool:
                return cut is not None and cut(bytes(sent), bytes(received))

            async with anyio.create_task_group() as tasks:
                scope = tasks.cancel_scope
                tasks.start_soon(self._pass_on, caller, gateway, sent, over, scope)
                tasks.start_soon(self._pass_on, gateway, caller, received, over, scope)

    async def _pass_on(
        self,
        source: SocketStream,
        sink: SocketStream,
        seen: bytearray,
        over: Callable[[], bool],
        scope: anyio.CancelScope,
    ) -> None:
        try:
            while True:
                piece = await source.receive()
                seen.extend(piece)
                if over():
                    break
                await sink.send(piece)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        scope.cancel()


def answer_is_swallowed(_: bytes, received: bytes) -> bool:
    """Return whether the gateway has begun to answer; the cut drops this answer."""
    return bool(received)


def after_events(count: int, _: bytes, received: bytes) -> bool:
    """Return whether this many events were sent; the cut is within the last one."""
    return received.count(b"\nid: ") >= count


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_watches_and_waits_survive_a_restart_of_the_gateway(
    stack: Stack, flows: str, how: str
) -> None:
    async with stack.worker(flows=flows), AsyncClient(stack.url) as client:
        run = await client.submit("nap", {"seconds": 3})
        states: list[RunStatus] = []
        ended: list[RunStatus] = []

        async def watch() -> None:
            async for seen in run.watch():
                states.append(seen.status)

        def wait() -> None:
            with Client(stack.url) as another:
                ended.append(another.run(run.id).wait(timeout=40).status)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            tasks.start_soon(anyio.to_thread.run_sync, wait)
            await eventually(lambda: RunStatus.RUNNING in states, True)
            if how == "killed":
                stack.gateway.kill()
            else:
                stack.gateway.terminate()
                await stack.gateway.wait()
            await stack.start_gateway()
    assert ended == [RunStatus.COMPLETED]
    assert states[-1] is RunStatus.COMPLETED
    assert states.count(RunStatus.COMPLETED) == 1


async def test_calls_succeed_after_a_broker_outage_of_three_seconds(
    stack: Stack, flows: str
) -> None:
    async with stack.worker(flows=flows), AsyncClient(stack.url) as client:
        before = await client.submit("greet")
        await before.wait(timeout=20)
        await stack.nats.stop()
        await eventually(lambda: _is_refused(stack), True)
        # Without a key the submission is not repeated, so the caller gets the error.
        with pytest.raises(BrokerUnavailableError):
            await client.submit("greet")
        outcomes: dict[str, object] = {}

        async def note(name: str, call: Callable[[], object]) -> None:
            outcomes[name] = await call()  # type: ignore[misc] # every call here is awaitable

        submit = partial(client.submit, "greet", idempotency_key="around an outage")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(note, "get", before.get)
            tasks.start_soon(note, "cancel", before.cancel)
            tasks.start_soon(note, "submit", submit)
            await anyio.sleep(3)
            assert not outcomes
            await stack.nats.start()
        assert set(outcomes) == {"get", "cancel", "submit"}
        repeated = await submit()
        assert repeated.is_replay
        assert (await repeated.wait(timeout=20)).status is RunStatus.COMPLETED
        assert (await client.runs.counts()).total == 2


async def _is_refused(stack: Stack) -> bool:
    return (await stack.client.http.get("/runs")).status_code == 503


async def test_a_watch_resumes_after_its_connection_was_cut_within_an_event(
    stack: Stack, flows: str
) -> None:
    wire = Wire(stack.port)
    async with wire.open(), stack.worker(flows=flows), AsyncClient(wire.url) as client:
        run = client.run(await stack.client.submit("nap", params={"seconds": 1}))
        wire.cuts = [partial(after_events, 1), partial(after_events, 2)]
        states = [seen.status async for seen in run.watch()]
    assert states[-1] is RunStatus.COMPLETED
    assert states.count(RunStatus.COMPLETED) == 1
    watches = [request for request in wire.requests if b"/watch?" in request]
    assert len(watches) == 3
    # The first connection carried no complete event; the second one did.
    assert [b"last-event-id" in request.lower() for request in watches] == [False, False, True]


async def test_a_submission_with_a_key_is_one_run_after_lost_answers(
    stack: Stack,
) -> None:
    wire = Wire(stack.port)
    async with wire.open(), AsyncClient(wire.url) as client:
        wire.cuts = [answer_is_swallowed] * 3
        run = await client.submit("greet", idempotency_key="only once")
        assert run.is_replay
        assert (await client.runs.counts()).total == 1
    assert sum(b"POST /runs" in request for request in wire.requests) == 4


async def test_a_submission_without_a_key_is_sent_once_even_if_its_answer_is_lost(
    stack: Stack,
) -> None:
    wire = Wire(stack.port)
    async with wire.open(), AsyncClient(wire.url) as client:
        wire.cuts = [answer_is_swallowed]
        with pytest.raises(GatewayUnreachableError) as caught:
            await client.submit("greet")
        assert caught.value.may_have_arrived
        # The request had arrived; a repetition would have made a second run.
        assert (await client.runs.counts()).total == 1
    assert sum(b"POST /runs" in request for request in wire.requests) == 1


async def test_a_long_wait_uses_one_connection(stack: Stack, flows: str) -> None:
    """The timeout of a request is shorter than the time between two heartbeats."""
    wire = Wire(stack.port)
    async with wire.open(), AsyncClient(wire.url, timeout=0.5) as client:
        run = client.run(await stack.client.submit("greet"))
        states: list[RunStatus] = []

        async def watch() -> None:
            async for seen in run.watch():
                states.append(seen.status)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await anyio.sleep(6)
            assert states == [RunStatus.PENDING]
            async with stack.worker(flows=flows):
                await eventually(lambda: states[-1], RunStatus.COMPLETED, 20.0)
    assert len(wire.requests) == 1
