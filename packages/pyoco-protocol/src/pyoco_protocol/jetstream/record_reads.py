"""Records that a gateway reads for workers, over core NATS.

The NATS user of a worker has no permission to read a bucket: a request for a message can carry a
wildcard or a sequence instead of a key, so that permission would show the worker every record. A
worker asks a gateway instead, by a subject with one id. The gateway reads from the leader, so an
answer is never stale: a worker may drop the job of a run that is absent in the answer.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import anyio
import nats.errors
from nats.aio.msg import Msg
from pydantic import ValidationError

from pyoco_protocol.ids import is_run_id, is_worker_id
from pyoco_protocol.jetstream.bucket import ReadValue, Value, read_from_leader
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import NoResponderError, RefusedError, ask_for_bytes
from pyoco_protocol.problems import BrokerUnavailableError, PyocoError
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.subjects import Names, run_of_read, worker_of_read
from pyoco_protocol.workers import WorkerRecord

_log = logging.getLogger(__name__)

# Gateways share the requests: each is answered by one of them.
_QUEUE_GROUP: Final = "pyoco_gateways"
# A worker that sends many requests must not keep a gateway from its own reads.
_MAX_CONCURRENT: Final = 16
_MAX_WAITING: Final = 4096
_RETRY_SEC: Final = 0.5
_ABSENT: Final = 0
# The answer for a record that cannot be parsed: the worker cannot parse this either.
_UNREADABLE: Final = b""

ReadSubject = Callable[[str], Awaitable[Value | None]]


def run_reader(broker: Broker, names: Names, tags: Sequence[str]) -> ReadValue:
    """Return a function that reads the record of a run with one of these tags.

    A run with another tag is answered like one that does not exist.
    """

    async def read(run_id: str) -> Value | None:
        for tag in tags:
            found = await _ask_gateway(broker, names.run_read(tag, run_id))
            if found is not None:
                return found
        return None

    return read


def worker_reader(broker: Broker, names: Names) -> ReadValue:
    """Return a function that reads the registry record of a worker, without ids of runs."""

    async def read(worker_id: str) -> Value | None:
        return await _ask_gateway(broker, names.worker_read(worker_id))

    return read


class RecordReads:
    """Answers the requests of workers, as every gateway does.

    NATS permissions limit the tags in a worker's requests. They cannot limit the id, which may be
    a wildcard, nor the subject for the answer. A gateway answers only to inboxes: it may publish
    to subjects that the worker may not.
    """

    def __init__(self, broker: Broker, names: Names) -> None:
        self._broker = broker
        self._names = names
        self._read_run = partial(read_from_leader, broker, names.runs_bucket)
        self._read_worker = partial(read_from_leader, broker, names.workers_bucket)

    async def run(self) -> None:
        """Answer until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._answer_all, self._names.all_run_reads, self._run)
            tasks.start_soon(self._answer_all, self._names.all_worker_reads, self._worker)

    async def _answer_all(self, subject: str, read: ReadSubject) -> None:
        waiting, requests = anyio.create_memory_object_stream[Msg](_MAX_WAITING)

        async def receive(message: Msg) -> None:
            # The payload has no meaning, and many large ones would take much memory.
            message.data = b""
            # A worker asks again after a timeout if its request is dropped here.
            with suppress(anyio.WouldBlock, anyio.ClosedResourceError):
                waiting.send_nowait(message)

        async def answer() -> None:
            async for message in requests:
                body = await _answer(message.subject, read)
                with suppress(nats.errors.Error, OSError):
                    await self._broker.respond(message, body)

        with waiting, requests:
            async with anyio.create_task_group() as tasks:
                for _ in range(_MAX_CONCURRENT):
                    tasks.start_soon(answer)
                await self._subscribe(subject, receive)

    async def _subscribe(self, subject: str, receive: Callable[[Msg], Awaitable[None]]) -> None:
        while True:
            try:
                await self._broker.wait_until_up()
                await self._broker.client.subscribe(subject, _QUEUE_GROUP, cb=receive)
            # Every PyocoError, also BrokerTooOldError: the broker may be upgraded later.
            except (PyocoError, nats.errors.Error, OSError):
                await anyio.sleep(_RETRY_SEC)
            else:
                return

    async def _run(self, subject: str) -> Value | None:
        tag, run_id = run_of_read(subject)
        found = await self._read_run(run_id) if is_run_id(run_id) else None
        if found is None or found.data is None:
            return found
        try:
            run = RunSnapshot.from_bytes(found.data)
        except ValidationError:
            return Value(_UNREADABLE, found.revision)
        # Workers of an earlier server store records without a tag.
        return found if run.tag in (None, tag) else None

    async def _worker(self, subject: str) -> Value | None:
        worker_id = worker_of_read(subject) or ""
        found = await self._read_worker(worker_id) if is_worker_id(worker_id) else None
        if found is None or found.data is None:
            return found
        try:
            record = WorkerRecord.model_validate_json(found.data)
        except ValidationError:
            return Value(_UNREADABLE, found.revision)
        # The runs may have tags that the reader does not have.
        no_runs = {"current_run_id": None, "current_run_ids": (), "last_run_id": None}
        return Value(record.model_copy(update=no_runs).to_bytes(), found.revision)


async def _answer(subject: str, read: ReadSubject) -> bytes:
    try:
        value = await read(subject)
    except (BrokerUnavailableError, RefusedError) as error:
        _log.info("record not read for a worker", extra={"reason": str(error)})
        return json.dumps({"error": "the gateway cannot read the record now"}).encode()
    return _encoded(value)


def _encoded(value: Value | None) -> bytes:
    """Return the answer: a line of JSON with the revision, then the value as it is stored.

    The whole is not JSON, so it cannot be taken for a job.
    """
    head = json.dumps({"revision": _ABSENT if value is None else value.revision}).encode()
    return head if value is None or value.data is None else head + b"\n" + value.data


async def _ask_gateway(broker: Broker, subject: str) -> Value | None:
    client = broker.require_up()
    try:
        reply = await ask_for_bytes(client, subject)
    except NoResponderError as error:
        raise NoResponderError(
            "no gateway answers: a worker with PYOCO_WORKER_PREPARES_BROKER=false reads records "
            "through a gateway of its own version or a later one"
        ) from error
    head, separator, data = reply.partition(b"\n")
    answer: dict[str, Any] = json.loads(head)
    if "error" in answer:
        raise BrokerUnavailableError(str(answer["error"]))
    revision = int(answer["revision"])
    return None if revision == _ABSENT else Value(data if separator else None, revision)
