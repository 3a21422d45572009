"""Reads from the broker: ends of runs, counts of messages and writes."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, DeliverPolicy

from pyoco_protocol import subjects
from pyoco_protocol.subjects import Names

_NAMES: Final = Names()
_RUNS_STREAM: Final = subjects.kv_stream(_NAMES.runs_bucket)
_COMPLETED: Final = b'"status":"COMPLETED"'
_POLL_SEC: Final = 0.02


class CompletedRuns:
    """Records the runs whose completion a bucket watcher has seen."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        # The unix time at which the completion of each run was seen, by run id.
        self.at: dict[str, float] = {}
        self._changed = anyio.Event()
        self.last_at = 0.0

    async def note(self, message: Msg) -> None:
        """Record a write of a snapshot if the run is COMPLETED."""
        if _COMPLETED in message.data:
            self._seen.add(message.subject)
            self.last_at = time.time()
            self.at.setdefault(message.subject.rpartition(".")[2], self.last_at)
            self._changed.set()

    async def wait_for(self, count: int) -> float:
        """Wait for `count` completed runs, and return the unix time of the last."""
        while len(self._seen) < count:
            self._changed = anyio.Event()
            await self._changed.wait()
        return self.last_at


class BrokerView:
    """A read-only connection to the broker."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @asynccontextmanager
    async def watching_ends(self) -> AsyncIterator[CompletedRuns]:
        """Record the runs that complete from now on."""
        seen = CompletedRuns()
        subscription = await self._client.jetstream().subscribe(
            subjects.kv_key(_NAMES.runs_bucket, ">"),
            stream=_RUNS_STREAM,
            ordered_consumer=True,
            cb=seen.note,
            config=ConsumerConfig(deliver_policy=DeliverPolicy.NEW),
        )
        try:
            yield seen
        finally:
            await subscription.unsubscribe()

    async def kv_writes(self) -> int:
        """Return the number of writes to the runs bucket so far."""
        return int((await self._state(_RUNS_STREAM))["last_seq"])

    async def wait_until_idle(self) -> None:
        """Wait until the queue is empty."""
        while True:
            if not (await self._state(_NAMES.work_stream))["messages"]:
                return
            await anyio.sleep(_POLL_SEC)

    async def _state(self, stream: str) -> dict[str, Any]:
        reply = await self._client.request(f"$JS.API.STREAM.INFO.{stream}", timeout=10)
        state: dict[str, Any] = json.loads(reply.data)["state"]
        return state


@asynccontextmanager
async def broker_view(url: str) -> AsyncIterator[BrokerView]:
    """Open a read-only connection to the broker."""
    client = await nats.connect(url)
    try:
        yield BrokerView(client)
    finally:
        await client.close()
