"""A stream in which every subject is a log: messages are appended by compare-and-append."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from nats.aio.client import Client

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.direct_batch import DirectMessage, read_batch
from pyoco_protocol.jetstream.requests import (
    REQUEST_TIMEOUT_SEC,
    RefusedError,
    UnknownOutcomeError,
    ask,
)
from pyoco_protocol.jetstream.stored_message import StoredMessage, read_message

_EXPECTED_SEQUENCE: Final = "Nats-Expected-Last-Subject-Sequence"
_MESSAGE_ID: Final = "Nats-Msg-Id"
# The broker closes the connection of a client that sends a larger message. The library checks
# the body only.
_HEADER_BYTES: Final = 256
_TOO_LARGE: Final = 10054
# 10158: a message with this id is being stored. 10077: the store failed, perhaps on one replica.
_UNSETTLED: Final = frozenset({10158, 10077})


class AppendConflictError(Exception):
    """The subject has a newer message than expected: read what follows and decide again.

    The newer message may be the one that was sent, if it was sent before without an answer.
    """


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A stored message of a log; `stored_at` is the broker's clock in unix seconds."""

    subject: str
    stream_seq: int
    body: bytes
    stored_at: float


class SubjectLog:
    """Appends to the logs of one stream and reads them."""

    def __init__(self, broker: Broker, stream: str) -> None:
        self._broker = broker
        self._stream = stream

    async def append(
        self,
        subject: str,
        body: bytes,
        *,
        expected: int,
        message_id: str | None = None,
        timeout_sec: float = REQUEST_TIMEOUT_SEC,
    ) -> int:
        """Append after the last message of the subject; return the sequence of the new message.

        `expected` is the sequence of that last message, 0 for an empty log. A repeat with the same
        `message_id` stores nothing: it returns the sequence of the stored message, or raises
        AppendConflictError.

        Raises AppendConflictError if the subject has a newer message. Raises UnknownOutcomeError
        if the message may have been stored, or may be later: only the same bytes with the same
        `expected` and `message_id` may be sent next. Raises RefusedError or another
        BrokerUnavailableError if this call stored nothing. After an UnknownOutcomeError, that says
        nothing about the call before.
        """
        client = self._broker.require_up()
        if len(body) + _HEADER_BYTES > client.max_payload:
            raise RefusedError(413, _TOO_LARGE, "message size exceeds maximum allowed")
        headers = {_EXPECTED_SEQUENCE: str(expected)}
        if message_id is not None:
            headers[_MESSAGE_ID] = message_id
        try:
            answer = await ask(client, subject, body, headers=headers, timeout_sec=timeout_sec)
        except RefusedError as refusal:
            if refusal.is_conflict:
                raise AppendConflictError(subject) from refusal
            if refusal.err_code in _UNSETTLED:
                raise UnknownOutcomeError(str(refusal)) from refusal
            raise
        # With `duplicate: true`, this is the sequence of the message that was stored before.
        return int(answer["seq"])

    async def last(self, subject: str) -> LogEntry | None:
        """Return the last message of a subject as the leader has it."""
        return await self._read({"last_by_subj": subject}, subject)

    async def next(self, subject: str, stream_seq: int) -> LogEntry | None:
        """Return the first message of a subject after `stream_seq` as the leader has it."""
        return await self._read({"seq": stream_seq + 1, "next_by_subj": subject}, subject)

    async def at(self, stream_seq: int) -> LogEntry | None:
        """Return the message with this sequence as the leader has it; of any subject."""
        if stream_seq < 1:
            return None
        return await self._read({"seq": stream_seq})

    async def after(
        self, subject: str, stream_seq: int, *, up_to: int, batch: int
    ) -> AsyncIterator[LogEntry]:
        """Yield the messages of a subject after `stream_seq` up to and including `up_to`.

        They come in batches from any replica. What a replica does not have is read from the
        leader, one by one.
        """
        reached = stream_seq
        while reached < up_to:
            client = self._broker.require_up()
            page = await self._page(client, subject, reached, batch)
            for entry in page:
                if entry.stream_seq > up_to:
                    return
                reached = entry.stream_seq
                yield entry
            if not page:
                break
        while reached < up_to:
            following = await self.next(subject, reached)
            if following is None or following.stream_seq > up_to:
                return
            reached = following.stream_seq
            yield following

    async def _page(
        self, client: Client, subject: str, stream_seq: int, batch: int
    ) -> list[LogEntry]:
        request = {"seq": stream_seq + 1, "next_by_subj": subject, "batch": batch}
        found = await read_batch(client, self._stream, request)
        return [from_replica(each) for each in found.messages if each.subject == subject]

    async def _read(
        self, request: dict[str, object], subject: str | None = None
    ) -> LogEntry | None:
        message = await read_message(self._broker.require_up(), self._stream, request)
        if message is None or subject not in (None, message.subject):
            # A subject with a wildcard selects messages of other subjects.
            return None
        return _from_leader(message)


def _from_leader(message: StoredMessage) -> LogEntry:
    return LogEntry(message.subject, message.seq, message.data, message.stored_at)


def from_replica(message: DirectMessage) -> LogEntry:
    """Return the entry of a message that was read with `read_batch`."""
    return LogEntry(message.subject, message.seq, message.data, message.stored_at)
