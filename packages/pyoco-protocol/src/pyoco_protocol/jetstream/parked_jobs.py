"""Jobs that JetStream has stopped handing out, without a word to anybody who does not listen.

The consumers we create have no delivery limit. One that someone else created may, and what passes
it stays in the stream for ever.
"""

import base64
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from nats.aio.msg import Msg

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError, ask

_log = logging.getLogger(__name__)

_API: Final = "$JS.API"
_NO_MESSAGE: Final = 10037
_PAGE: Final = 256


@dataclass(frozen=True, slots=True)
class ParkedJob:
    """A job that no worker will ever be given again."""

    stream_seq: int
    subject: str
    data: bytes


async def hear_of_parked(broker: Broker, stream: str, on_parked: Callable[[int], None]) -> None:
    """Have `on_parked` called with the sequence of each job that is parked from now on."""

    async def hear(message: Msg) -> None:
        try:
            on_parked(int(json.loads(message.data)["stream_seq"]))
        except (ValueError, KeyError, TypeError) as error:
            _log.warning("advisory cannot be read", extra={"reason": str(error)})

    await broker.client.subscribe(subjects.max_deliveries_advisory(stream), cb=hear)


async def find_parked(broker: Broker, stream: str) -> AsyncIterator[ParkedJob]:
    """Yield the jobs that were parked while nobody listened.

    Of a consumer that has jobs out it cannot be told which are parked; its turn comes later.
    """
    client = broker.require_up()
    offset = 0
    while True:
        request = json.dumps({"offset": offset}).encode()
        page = await ask(client, f"{_API}.CONSUMER.LIST.{stream}", request)
        for consumer in page.get("consumers") or []:
            config = consumer["config"]
            if int(config.get("max_deliver") or -1) < 1 or consumer["num_ack_pending"]:
                continue
            handed_out = int(consumer["delivered"]["stream_seq"])
            for subject in _filters_of(config):
                async for job in _jobs_up_to(broker, stream, subject, handed_out):
                    yield job
        offset += _PAGE
        if offset >= int(page.get("total") or 0):
            return


async def read_job(broker: Broker, stream: str, stream_seq: int) -> ParkedJob | None:
    """Return the job at a sequence; None where it is gone."""
    return await _get(broker, stream, {"seq": stream_seq})


async def remove_job(broker: Broker, stream: str, stream_seq: int) -> None:
    """Take a job out of the stream; harmless where it is gone."""
    request = json.dumps({"seq": stream_seq, "no_erase": True}).encode()
    try:
        await ask(broker.require_up(), f"{_API}.STREAM.MSG.DELETE.{stream}", request)
    except RefusedError as refusal:
        _log.debug("job was gone", extra={"stream_seq": stream_seq, "reason": str(refusal)})


def _filters_of(config: Mapping[str, Any]) -> list[str]:
    # Someone else made it: it may have one filter, several, or none.
    return list(config.get("filter_subjects") or [config.get("filter_subject") or ">"])


async def _jobs_up_to(
    broker: Broker, stream: str, subject: str, last_seq: int
) -> AsyncIterator[ParkedJob]:
    seq = 1
    while (job := await _get(broker, stream, {"seq": seq, "next_by_subj": subject})) is not None:
        if job.stream_seq > last_seq:
            return
        yield job
        seq = job.stream_seq + 1


async def _get(broker: Broker, stream: str, request: dict[str, object]) -> ParkedJob | None:
    subject = subjects.last_message(stream)
    try:
        answer = await ask(broker.require_up(), subject, json.dumps(request).encode())
    except RefusedError as refusal:
        if refusal.err_code == _NO_MESSAGE:
            return None
        raise
    message = answer["message"]
    return ParkedJob(
        stream_seq=int(message["seq"]),
        subject=str(message["subject"]),
        data=base64.b64decode(message.get("data") or b""),
    )
