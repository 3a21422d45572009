"""Parked jobs: jobs that passed their consumer's delivery limit and stay in the stream.

Consumers of Pyoco Server have no delivery limit, but a consumer that another program created may
have one. JetStream announces a parked job only once, in an advisory.
"""

import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from nats.aio.msg import Msg

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.jetstream.stored_message import read_message

_log = logging.getLogger(__name__)

_API: Final = "$JS.API"
_PAGE: Final = 256


@dataclass(frozen=True, slots=True)
class ParkedJob:
    """A job that JetStream does not deliver any more."""

    stream_seq: int
    subject: str
    data: bytes


async def subscribe_to_parked_jobs(
    broker: Broker, stream: str, on_parked: Callable[[int], None]
) -> None:
    """Call `on_parked` with the sequence of each job that is parked from now on."""

    async def receive(message: Msg) -> None:
        try:
            on_parked(int(json.loads(message.data)["stream_seq"]))
        except (ValueError, KeyError, TypeError) as error:
            _log.warning("max-deliveries advisory is invalid", extra={"reason": str(error)})

    await broker.client.subscribe(subjects.max_deliveries_advisory(stream), cb=receive)


async def find_parked_jobs(broker: Broker, stream: str) -> AsyncIterator[ParkedJob]:
    """Yield the jobs that were parked before the subscription to advisories.

    Skips consumers with unacknowledged jobs: JetStream does not tell those from parked jobs.
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
    """Return the job at a sequence, or None if it is gone."""
    return await _get(broker, stream, {"seq": stream_seq})


async def remove_job(broker: Broker, stream: str, stream_seq: int) -> None:
    """Delete a job from the stream, if it is still there."""
    request = json.dumps({"seq": stream_seq, "no_erase": True}).encode()
    try:
        await ask(broker.require_up(), f"{_API}.STREAM.MSG.DELETE.{stream}", request)
    except RefusedError as refusal:
        _log.debug("job not deleted", extra={"stream_seq": stream_seq, "reason": str(refusal)})


def _filters_of(config: Mapping[str, Any]) -> list[str]:
    # A consumer of another program may have one filter, several, or none.
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
    message = await read_message(broker.require_up(), stream, request)
    if message is None:
        return None
    return ParkedJob(stream_seq=message.seq, subject=message.subject, data=message.data)
