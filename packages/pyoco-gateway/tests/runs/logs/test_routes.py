"""`GET /runs/{run_id}/logs`: the output of a run, page by page and live."""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import TaskStatus

from pyoco_protocol.ids import new_run_id
from pyoco_protocol.runs.output import OutputChunk, OutputEntry
from pyoco_testkit.builders import snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"


class Printer:
    """Stores the record and the output of a run as a worker does."""

    def __init__(self, store: Any, run_id: str = RUN) -> None:
        self.store = store
        self.run_id = run_id
        self._lines: dict[int, int] = {}
        self._chunks: dict[int, int] = {}

    async def set_status(self, status: str, attempt: int = 1) -> None:
        value = snapshot(run_id=self.run_id, status=status, attempt=attempt).to_bytes()
        await self.store.js.publish(f"$KV.pyoco_runs.{self.run_id}", value)

    async def print(
        self, *lines: str, attempt: int = 1, truncated: bool = False, **fields: Any
    ) -> int:
        """Store a chunk of lines and return its sequence."""
        first, n = self._lines.get(attempt, 0), self._chunks.get(attempt, 0)
        entry = {"ts": 1763366400.5, "task": "a", "stream": "stdout", **fields}
        chunk = OutputChunk(
            run_id=self.run_id,
            attempt=attempt,
            n=n,
            first_line=first,
            entries=tuple(OutputEntry.model_validate({**entry, "text": line}) for line in lines),
            truncated=truncated,
        )
        self._lines[attempt], self._chunks[attempt] = first + len(lines), n + 1
        return await self.publish(chunk.to_bytes())

    async def publish(self, data: bytes) -> int:
        stored = await self.store.js.publish(f"pyoco.logs.{self.run_id}", data)
        return int(stored.seq)


@pytest.fixture
async def printer(gateway: httpx.AsyncClient, store: Any) -> Printer:
    """Return the printer of a running run."""
    del gateway  # Only needed because it creates the stream.
    printer = Printer(store)
    await printer.set_status("RUNNING")
    return printer


async def page(gateway: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await gateway.get(f"/runs/{RUN}/logs", params=query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def texts(body: dict[str, Any]) -> list[str]:
    return [item["text"] for item in body["items"]]


async def test_a_line_has_its_number_time_attempt_task_and_stream(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.print("一", "two", stream="stderr", task=None)
    await printer.set_status("COMPLETED")
    assert await page(gateway) == {
        "run_id": RUN,
        "items": [
            {
                "seq": number,
                "ts": 1763366400.5,
                "attempt": 1,
                "task": None,
                "stream": "stderr",
                "text": text,
            }
            for number, text in enumerate(["一", "two"])
        ],
        "next_cursor": None,
        "truncated": False,
    }


async def test_a_run_without_output_has_an_empty_page(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.set_status("COMPLETED")
    body = await page(gateway)
    assert (body["items"], body["next_cursor"]) == ([], None)


async def test_pages_hold_every_line_once_in_order(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.print("0", "1", "2")
    await Printer(printer.store, new_run_id()).print("other run")
    await printer.print("3")
    await printer.print("4", "5", "6", "7", truncated=True)
    await printer.set_status("COMPLETED")
    for limit in (1, 2, 3, 7, 1000):
        read: list[str] = []
        body = await page(gateway, limit=limit)
        while body["next_cursor"] is not None:
            assert 0 < len(body["items"]) <= limit
            read += texts(body)
            body = await page(gateway, limit=limit, cursor=body["next_cursor"])
        read += texts(body)
        assert read == list("01234567")
        assert body["truncated"]


async def test_a_running_run_always_has_a_next_cursor(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    nothing = await page(gateway)
    await printer.print("one")
    first = await page(gateway, cursor=nothing["next_cursor"])
    again = await page(gateway, cursor=first["next_cursor"])
    await printer.print("two")
    second = await page(gateway, cursor=again["next_cursor"])
    await printer.set_status("FAILED")
    last = await page(gateway, cursor=second["next_cursor"])
    assert [texts(body) for body in (nothing, first, again, second, last)] == [
        *([], ["one"], [], ["two"], []),
    ]
    assert last["next_cursor"] is None


async def test_the_size_of_a_page_is_limited(gateway: httpx.AsyncClient, printer: Printer) -> None:
    for _ in range(30):
        await printer.print(*["x" * 8000] * 7)
    await printer.set_status("COMPLETED")
    answer = await gateway.get(f"/runs/{RUN}/logs", params={"limit": 1000})
    assert 900_000 < len(answer.content) < 1_200_000
    cursor = answer.json()["next_cursor"]
    rest = await page(gateway, limit=1000, cursor=cursor)
    assert len(answer.json()["items"]) + len(rest["items"]) == 210
    assert rest["next_cursor"] is None


async def test_a_run_with_many_small_chunks_is_read_to_its_end(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    for number in range(300):
        await printer.print(str(number))
    await printer.set_status("COMPLETED")
    first = await page(gateway, limit=1000)
    rest = await page(gateway, limit=1000, cursor=first["next_cursor"])
    assert texts(first) + texts(rest) == [str(number) for number in range(300)]


async def test_lines_are_filtered_by_task_stream_and_attempt(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.print("old", attempt=1)
    await printer.print("task a", attempt=2)
    await printer.print("task b", attempt=2, task="b")
    await printer.print("error", attempt=2, stream="stderr")
    await printer.print("no task", attempt=2, task=None)
    await printer.set_status("COMPLETED", attempt=2)
    latest = ["task a", "task b", "error", "no task"]
    for query, expected in (
        ({}, latest),
        ({"attempt": "latest"}, latest),
        ({"attempt": "all"}, ["old", *latest]),
        ({"attempt": "1"}, ["old"]),
        ({"attempt": "3"}, []),
        ({"task": "b"}, ["task b"]),
        ({"task": "a", "stream": "stderr"}, ["error"]),
        ({"stream": "stdout", "attempt": "all"}, ["old", "task a", "task b", "no task"]),
        ({"task": "c"}, []),
    ):
        body = await page(gateway, **query)
        assert (texts(body), body["next_cursor"]) == (expected, None), query


async def test_an_unreadable_chunk_is_skipped(gateway: httpx.AsyncClient, printer: Printer) -> None:
    await printer.print("before")
    for invalid in (b"", b"null", b"\xff", b'{"run_id": "x", "attempt": {}}'):
        await printer.publish(invalid)
    await printer.print("after")
    await printer.set_status("COMPLETED")
    assert texts(await page(gateway)) == ["before", "after"]
    async with following(gateway) as events:
        assert [event async for event in lines_of(events)] == ["before", "after"]


async def test_the_logs_of_an_unknown_run_are_not_found(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    for run_id in (new_run_id(), "*", ">", "x" * 300):
        for follow in ("0", "1"):
            answer = await gateway.get(f"/runs/{run_id}/logs", params={"follow": follow})
            assert answer.status_code == 404
            assert answer.json()["err_id"] == "ERR-PYOCO-0005"


INVALID_QUERIES: tuple[dict[str, str], ...] = (
    {"limit": "0"},
    {"limit": "1001"},
    {"limit": "many"},
    {"stream": "stdin"},
    {"attempt": "0"},
    {"attempt": "-1"},
    {"attempt": "first"},
    {"attempt": "1 "},
    {"cursor": ""},
    {"cursor": "x"},
    {"cursor": "1.2.3"},
    {"cursor": "9" * 19 + ".0"},
    {"cursor": "1.2\n"},
    {"follow": "maybe"},
    {"timeout_sec": "0", "follow": "1"},
    {"timeout_sec": "601", "follow": "1"},
)


async def test_an_invalid_query_is_refused_by_name(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    for query in INVALID_QUERIES:
        answer = await gateway.get(f"/runs/{RUN}/logs", params=query)
        assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0002"), query
        assert next(iter(query)) in answer.json()["detail"]


async def test_an_invalid_last_event_id_is_refused(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    answer = await gateway.get(
        f"/runs/{RUN}/logs", params={"follow": "1"}, headers={"Last-Event-ID": "yesterday"}
    )
    assert answer.status_code == 422


async def test_without_the_broker_the_answer_is_503(
    gateway: httpx.AsyncClient, printer: Printer, nats_server: NatsServer
) -> None:
    nats_server.kill()
    for follow in ("0", "1"):
        answer = await gateway.get(f"/runs/{RUN}/logs", params={"follow": follow})
        assert answer.status_code == 503


# --- live

Event = tuple[str, str | None, dict[str, Any]]


@asynccontextmanager
async def following(
    gateway: httpx.AsyncClient, *, last_event_id: str | None = None, **query: Any
) -> AsyncGenerator[AsyncGenerator[Event]]:
    headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
    request = gateway.stream(
        "GET", f"/runs/{RUN}/logs", params={"follow": "1", **query}, headers=headers
    )
    async with request as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield events_in(answer)


async def events_in(answer: httpx.Response) -> AsyncGenerator[Event]:
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            # A `retry` field alone is not an event.
            if "event" in fields:
                yield fields["event"], fields.get("id"), json.loads(fields["data"])
            fields = {}


async def lines_of(events: AsyncGenerator[Event]) -> AsyncGenerator[str]:
    """Yield the lines of all events; the last event must be `end`."""
    kind = ""
    async for kind, _, data in events:
        if kind == "log":
            for item in data["items"]:
                yield item["text"]
    assert kind == "end"


async def test_a_follower_gets_stored_and_new_lines_and_the_end(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.print("before", "and more")
    async with following(gateway) as events:
        lines = lines_of(events)
        assert [await anext(lines), await anext(lines)] == ["before", "and more"]
        for number in range(5):
            started = time.monotonic()
            await printer.print(f"live {number}")
            assert await anext(lines) == f"live {number}"
            # Much faster than polling.
            assert time.monotonic() - started < 1
        await printer.print("last")
        await printer.set_status("COMPLETED")
        assert [line async for line in lines] == ["last"]


async def test_following_an_ended_run_ends_at_once(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    seq = await printer.print("all there is", truncated=True)
    await printer.set_status("CANCELLED")
    async with following(gateway) as events:
        (_, log, end) = [event async for event in events]
    assert (log[0], log[1], log[2]["truncated"], log[2]["run_id"]) == ("log", str(seq), True, RUN)
    assert end[0] == "end"


async def test_a_follower_that_reconnects_continues_after_its_last_event(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.print("one")
    second = await printer.print("two")
    await printer.print("three", "four")
    await printer.set_status("COMPLETED")
    async with following(gateway, last_event_id=str(second)) as events:
        assert [line async for line in lines_of(events)] == ["three", "four"]
    cursor = (await page(gateway, limit=3))["next_cursor"]
    async with following(gateway, cursor=cursor) as events:
        assert [line async for line in lines_of(events)] == ["four"]


async def test_a_follower_of_the_latest_attempt_gets_later_attempts(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.print("first", attempt=1)
    await printer.set_status("RUNNING", attempt=2)
    await printer.print("second", attempt=2)
    async with following(gateway) as events:
        lines = lines_of(events)
        assert await anext(lines) == "second"
        await printer.print("third", attempt=3)
        await printer.set_status("COMPLETED", attempt=3)
        assert [line async for line in lines] == ["third"]


async def test_a_follower_gets_only_matching_lines(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.print("task a", stream="stderr")
    await printer.print("task b", task="b")
    await printer.set_status("COMPLETED")
    async with following(gateway, task="a", stream="stderr") as events:
        assert [line async for line in lines_of(events)] == ["task a"]


async def test_without_output_heartbeats_are_sent_until_the_timeout(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    started = time.monotonic()
    async with following(gateway, timeout_sec=3) as events:
        kinds = [(kind, time.monotonic() - started) async for kind, _, _ in events]
    assert [kind for kind, _ in kinds] == ["heartbeat", "heartbeat"]
    assert kinds[1][1] < 3
    assert time.monotonic() - started < 5


async def test_heartbeats_are_sent_while_no_line_matches(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    async def print_repeatedly() -> None:
        while True:
            await printer.print("other task", task="b")
            await anyio.sleep(0.2)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(print_repeatedly)
        started = time.monotonic()
        async with following(gateway, task="a", timeout_sec=4) as events:
            kinds = [(kind, time.monotonic() - started) async for kind, _, _ in events]
        tasks.cancel_scope.cancel()
    assert [kind for kind, _ in kinds] == ["heartbeat", "heartbeat"]
    assert kinds[1][1] < 3.5


async def test_a_gateway_that_stops_sends_goodbye_to_followers(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    stop, kinds = anyio.Event(), list[str]()
    async with anyio.create_task_group() as tasks:

        async def serve(*, task_status: TaskStatus[httpx.URL]) -> None:
            async with start_gateway(nats_server.url) as gateway:
                task_status.started(gateway.base_url)
                await stop.wait()

        url = await tasks.start(serve)
        await Printer(store).set_status("RUNNING")
        async with (
            httpx.AsyncClient(base_url=url, trust_env=False) as client,
            following(client) as events,
        ):
            async for kind, _, _ in events:
                kinds.append(kind)
                stop.set()
    assert (kinds[0], kinds[-1]) == ("heartbeat", "goodbye")


async def test_followers_count_towards_the_limit_of_streams(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    async with start_gateway(nats_server.url, PYOCO_SSE_MAX_STREAMS_PER_PEER="1") as gateway:
        await Printer(store).set_status("RUNNING")
        async with following(gateway) as events:
            assert (await anext(events))[0] == "heartbeat"
            refused = await gateway.get(f"/runs/{RUN}/logs?follow=1")
    assert (refused.status_code, refused.json()["err_id"]) == (429, "ERR-PYOCO-0104")


async def test_followers_that_disconnect_at_once_do_no_harm(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    for _ in range(20):
        async with following(gateway) as events:
            assert (await anext(events))[0] == "heartbeat"
        # The gateway may still be reading the run for the closed stream.
        assert (await gateway.get(f"/runs/{RUN}")).status_code == 200


async def test_following_a_deleted_run_ends(gateway: httpx.AsyncClient, printer: Printer) -> None:
    async with following(gateway) as events:
        assert (await anext(events))[0] == "heartbeat"
        headers = {"KV-Operation": "DEL"}
        await printer.store.js.publish(f"$KV.pyoco_runs.{RUN}", b"", headers=headers)
        assert [kind async for kind, _, _ in events] == ["end"]


async def test_all_followers_of_a_run_get_all_lines(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    received: list[list[str]] = []

    async def follow() -> None:
        async with following(gateway) as events:
            received.append([line async for line in lines_of(events)])

    with anyio.fail_after(20):
        async with anyio.create_task_group() as followers:
            for _ in range(30):
                followers.start_soon(follow)
            for number in range(10):
                await printer.print(str(number))
            await printer.set_status("COMPLETED")
    assert received == [[str(number) for number in range(10)]] * 30


async def test_followers_survive_a_restart_of_the_broker(
    gateway: httpx.AsyncClient, printer: Printer, nats_server: NatsServer
) -> None:
    async with following(gateway) as events:
        lines = lines_of(events)
        await printer.print("before")
        assert await anext(lines) == "before"
        await nats_server.restart()

        async def print_again() -> bool:
            await printer.print("after")
            return True

        await eventually(print_again, True, retry_on=(Exception,))
        await printer.set_status("COMPLETED")
        assert "after" in [line async for line in lines]
