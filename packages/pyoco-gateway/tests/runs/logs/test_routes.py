"""`GET /runs/{run_id}/logs`: what a run printed, page by page and live."""

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
    """A run and what it prints, put where a worker puts it."""

    def __init__(self, store: Any, run_id: str = RUN) -> None:
        self.store = store
        self.run_id = run_id
        self._lines: dict[int, int] = {}
        self._chunks: dict[int, int] = {}

    async def stands(self, status: str, attempt: int = 1) -> None:
        value = snapshot(run_id=self.run_id, status=status, attempt=attempt).to_bytes()
        await self.store.js.publish(f"$KV.pyoco_runs.{self.run_id}", value)

    async def prints(
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
        return await self.publishes(chunk.to_bytes())

    async def publishes(self, data: bytes) -> int:
        stored = await self.store.js.publish(f"pyoco.logs.{self.run_id}", data)
        return int(stored.seq)


@pytest.fixture
async def printer(gateway: httpx.AsyncClient, store: Any) -> Printer:
    """Give a run that goes on."""
    del gateway  # It makes the stream.
    printer = Printer(store)
    await printer.stands("RUNNING")
    return printer


async def page(gateway: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await gateway.get(f"/runs/{RUN}/logs", params=query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def texts(body: dict[str, Any]) -> list[str]:
    return [item["text"] for item in body["items"]]


async def test_a_line_is_told_with_all_that_is_known_of_it(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.prints("一", "two", stream="stderr", task=None)
    await printer.stands("COMPLETED")
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


async def test_a_run_that_printed_nothing_has_an_empty_page(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.stands("COMPLETED")
    body = await page(gateway)
    assert (body["items"], body["next_cursor"]) == ([], None)


async def test_pages_hold_every_line_once_and_in_order(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.prints("0", "1", "2")
    await Printer(printer.store, new_run_id()).prints("not ours")
    await printer.prints("3")
    await printer.prints("4", "5", "6", "7", truncated=True)
    await printer.stands("COMPLETED")
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


async def test_while_a_run_goes_on_there_is_always_a_place_to_go_on_from(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    nothing = await page(gateway)
    await printer.prints("one")
    first = await page(gateway, cursor=nothing["next_cursor"])
    again = await page(gateway, cursor=first["next_cursor"])
    await printer.prints("two")
    second = await page(gateway, cursor=again["next_cursor"])
    await printer.stands("FAILED")
    last = await page(gateway, cursor=second["next_cursor"])
    assert [texts(body) for body in (nothing, first, again, second, last)] == [
        *([], ["one"], [], ["two"], []),
    ]
    assert last["next_cursor"] is None


async def test_a_page_is_never_larger_than_a_page(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    for _ in range(30):
        await printer.prints(*["x" * 8000] * 7)
    await printer.stands("COMPLETED")
    answer = await gateway.get(f"/runs/{RUN}/logs", params={"limit": 1000})
    assert 900_000 < len(answer.content) < 1_200_000
    cursor = answer.json()["next_cursor"]
    rest = await page(gateway, limit=1000, cursor=cursor)
    assert len(answer.json()["items"]) + len(rest["items"]) == 210
    assert rest["next_cursor"] is None


async def test_a_run_that_prints_a_little_now_and_then_is_read_to_its_end(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    for number in range(300):
        await printer.prints(str(number))
    await printer.stands("COMPLETED")
    first = await page(gateway, limit=1000)
    rest = await page(gateway, limit=1000, cursor=first["next_cursor"])
    assert texts(first) + texts(rest) == [str(number) for number in range(300)]


async def test_lines_are_picked_by_task_stream_and_attempt(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.prints("old", attempt=1)
    await printer.prints("mine", attempt=2)
    await printer.prints("theirs", attempt=2, task="b")
    await printer.prints("trouble", attempt=2, stream="stderr")
    await printer.prints("nobody's", attempt=2, task=None)
    await printer.stands("COMPLETED", attempt=2)
    latest = ["mine", "theirs", "trouble", "nobody's"]
    for query, wanted in (
        ({}, latest),
        ({"attempt": "latest"}, latest),
        ({"attempt": "all"}, ["old", *latest]),
        ({"attempt": "1"}, ["old"]),
        ({"attempt": "3"}, []),
        ({"task": "b"}, ["theirs"]),
        ({"task": "a", "stream": "stderr"}, ["trouble"]),
        ({"stream": "stdout", "attempt": "all"}, ["old", "mine", "theirs", "nobody's"]),
        ({"task": "c"}, []),
    ):
        body = await page(gateway, **query)
        assert (texts(body), body["next_cursor"]) == (wanted, None), query


async def test_a_chunk_that_cannot_be_read_is_skipped(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.prints("before")
    for rubbish in (b"", b"null", b"\xff", b'{"run_id": "x", "attempt": {}}'):
        await printer.publishes(rubbish)
    await printer.prints("after")
    await printer.stands("COMPLETED")
    assert texts(await page(gateway)) == ["before", "after"]
    async with following(gateway) as events:
        assert [event async for event in lines_of(events)] == ["before", "after"]


async def test_the_logs_of_a_run_that_is_not_there_are_not_there(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    for run_id in (new_run_id(), "*", ">", "x" * 300):
        for follow in ("0", "1"):
            answer = await gateway.get(f"/runs/{run_id}/logs", params={"follow": follow})
            assert answer.status_code == 404
            assert answer.json()["err_id"] == "ERR-PYOCO-0005"


BAD_QUERIES: tuple[dict[str, str], ...] = (
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


async def test_a_bad_query_is_named(gateway: httpx.AsyncClient, printer: Printer) -> None:
    for query in BAD_QUERIES:
        answer = await gateway.get(f"/runs/{RUN}/logs", params=query)
        assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0002"), query
        assert next(iter(query)) in answer.json()["detail"]


async def test_a_bad_place_to_resume_from_is_refused(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    answer = await gateway.get(
        f"/runs/{RUN}/logs", params={"follow": "1"}, headers={"Last-Event-ID": "yesterday"}
    )
    assert answer.status_code == 422


async def test_without_a_broker_it_is_said_so(
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
    asked = gateway.stream(
        "GET", f"/runs/{RUN}/logs", params={"follow": "1", **query}, headers=headers
    )
    async with asked as answer:
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
            # A hint when to come back is no event.
            if "event" in fields:
                yield fields["event"], fields.get("id"), json.loads(fields["data"])
            fields = {}


async def lines_of(events: AsyncGenerator[Event]) -> AsyncGenerator[str]:
    """Yield the lines as they come; end with the stream, which must say that it does."""
    kind = ""
    async for kind, _, data in events:
        if kind == "log":
            for item in data["items"]:
                yield item["text"]
    assert kind == "end"


async def test_who_follows_sees_what_was_and_what_comes_and_is_told_the_end(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.prints("before", "and more")
    async with following(gateway) as events:
        lines = lines_of(events)
        assert [await anext(lines), await anext(lines)] == ["before", "and more"]
        for number in range(5):
            began = time.monotonic()
            await printer.prints(f"live {number}")
            assert await anext(lines) == f"live {number}"
            # Well before anybody would look without being told.
            assert time.monotonic() - began < 1
        await printer.prints("last")
        await printer.stands("COMPLETED")
        assert [line async for line in lines] == ["last"]


async def test_the_log_of_a_run_that_is_over_ends_at_once(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    seq = await printer.prints("all there is", truncated=True)
    await printer.stands("CANCELLED")
    async with following(gateway) as events:
        (_, log, end) = [event async for event in events]
    assert (log[0], log[1], log[2]["truncated"], log[2]["run_id"]) == ("log", str(seq), True, RUN)
    assert end[0] == "end"


async def test_who_comes_back_goes_on_where_they_were(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.prints("one")
    second = await printer.prints("two")
    await printer.prints("three", "four")
    await printer.stands("COMPLETED")
    async with following(gateway, last_event_id=str(second)) as events:
        assert [line async for line in lines_of(events)] == ["three", "four"]
    cursor = (await page(gateway, limit=3))["next_cursor"]
    async with following(gateway, cursor=cursor) as events:
        assert [line async for line in lines_of(events)] == ["four"]


async def test_who_follows_the_latest_attempt_follows_those_after_it(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.prints("of old", attempt=1)
    await printer.stands("RUNNING", attempt=2)
    await printer.prints("second", attempt=2)
    async with following(gateway) as events:
        lines = lines_of(events)
        assert await anext(lines) == "second"
        await printer.prints("third", attempt=3)
        await printer.stands("COMPLETED", attempt=3)
        assert [line async for line in lines] == ["third"]


async def test_who_follows_sees_only_what_they_asked_for(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    await printer.prints("mine", stream="stderr")
    await printer.prints("theirs", task="b")
    await printer.stands("COMPLETED")
    async with following(gateway, task="a", stream="stderr") as events:
        assert [line async for line in lines_of(events)] == ["mine"]


async def test_a_silent_run_is_heard_to_live_and_left_in_time(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    began = time.monotonic()
    async with following(gateway, timeout_sec=3) as events:
        kinds = [(kind, time.monotonic() - began) async for kind, _, _ in events]
    assert [kind for kind, _ in kinds] == ["heartbeat", "heartbeat"]
    assert kinds[1][1] < 3
    assert time.monotonic() - began < 5


async def test_one_who_asked_for_nothing_that_is_printed_hears_that_the_run_lives(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    async def print_on() -> None:
        while True:
            await printer.prints("not for you", task="b")
            await anyio.sleep(0.2)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(print_on)
        began = time.monotonic()
        async with following(gateway, task="a", timeout_sec=4) as events:
            kinds = [(kind, time.monotonic() - began) async for kind, _, _ in events]
        tasks.cancel_scope.cancel()
    assert [kind for kind, _ in kinds] == ["heartbeat", "heartbeat"]
    assert kinds[1][1] < 3.5


async def test_a_gateway_that_stops_says_goodbye_to_those_who_follow(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    stop, kinds = anyio.Event(), list[str]()
    async with anyio.create_task_group() as tasks:

        async def serve(*, task_status: TaskStatus[httpx.URL]) -> None:
            async with start_gateway(nats_server.url) as gateway:
                task_status.started(gateway.base_url)
                await stop.wait()

        url = await tasks.start(serve)
        await Printer(store).stands("RUNNING")
        async with (
            httpx.AsyncClient(base_url=url, trust_env=False) as client,
            following(client) as events,
        ):
            async for kind, _, _ in events:
                kinds.append(kind)
                stop.set()
    assert (kinds[0], kinds[-1]) == ("heartbeat", "goodbye")


async def test_followers_count_as_streams_and_are_limited_like_others(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    async with start_gateway(nats_server.url, PYOCO_SSE_MAX_STREAMS_PER_PEER="1") as gateway:
        await Printer(store).stands("RUNNING")
        async with following(gateway) as events:
            assert (await anext(events))[0] == "heartbeat"
            refused = await gateway.get(f"/runs/{RUN}/logs?follow=1")
    assert (refused.status_code, refused.json()["err_id"]) == (429, "ERR-PYOCO-0104")


async def test_those_who_leave_as_soon_as_they_came_harm_nobody(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    for _ in range(20):
        async with following(gateway) as events:
            assert (await anext(events))[0] == "heartbeat"
        # Within the time in which the broker is asked.
        assert (await gateway.get(f"/runs/{RUN}")).status_code == 200


async def test_a_run_that_is_deleted_is_followed_no_longer(
    gateway: httpx.AsyncClient, printer: Printer
) -> None:
    async with following(gateway) as events:
        assert (await anext(events))[0] == "heartbeat"
        headers = {"KV-Operation": "DEL"}
        await printer.store.js.publish(f"$KV.pyoco_runs.{RUN}", b"", headers=headers)
        assert [kind async for kind, _, _ in events] == ["end"]


async def test_all_who_follow_a_run_see_all_of_it(
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
                await printer.prints(str(number))
            await printer.stands("COMPLETED")
    assert received == [[str(number) for number in range(10)]] * 30


async def test_an_outage_is_sat_out_by_those_who_follow(
    gateway: httpx.AsyncClient, printer: Printer, nats_server: NatsServer
) -> None:
    async with following(gateway) as events:
        lines = lines_of(events)
        await printer.prints("before")
        assert await anext(lines) == "before"
        await nats_server.restart()

        async def prints_again() -> bool:
            await printer.prints("after")
            return True

        await eventually(prints_again, True, retry_on=(Exception,))
        await printer.stands("COMPLETED")
        assert "after" in [line async for line in lines]
