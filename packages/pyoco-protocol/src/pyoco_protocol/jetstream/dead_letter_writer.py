"""Publishes dead letters and waits for the broker's acknowledgement."""

import logging
from typing import Final

import anyio

from pyoco_protocol.dead_letters import NO_TAG, DeadLetter, dead_letter_id
from pyoco_protocol.ids import is_tag
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.problems import BrokerUnavailableError, DlqPublishError
from pyoco_protocol.subjects import Names

_log = logging.getLogger(__name__)

_RETRY_SEC: Final = 2.0


class DeadLetterWriter:
    """Publishes dead letters; the broker drops a repeat of one."""

    def __init__(self, broker: Broker, names: Names) -> None:
        self._broker = broker
        self._names = names

    async def put(self, letter: DeadLetter, stream_seq: int) -> None:
        """Publish a dead letter; retry until it is stored.

        The caller may acknowledge the job only afterwards, or a crash could lose the job.
        """
        tag = letter.tag if letter.tag and is_tag(letter.tag) else NO_TAG
        headers = {"Nats-Msg-Id": dead_letter_id(letter, stream_seq)}
        while True:
            try:
                client = self._broker.require_up()
                await ask(client, self._names.dlq(tag), letter.to_bytes(), headers=headers)
            except (BrokerUnavailableError, RefusedError) as error:
                _log.error(
                    "dead letter not published yet",
                    extra={
                        "run_id": letter.run_id,
                        "flow_name": letter.flow_name,
                        "tag": letter.tag,
                        "worker_id": letter.worker_id,
                        "reason": letter.reason,
                    },
                    exc_info=_unpublished(letter, error),
                )
                await anyio.sleep(_RETRY_SEC)
                await self._broker.wait_until_up()
                continue
            return


def _unpublished(letter: DeadLetter, cause: Exception) -> DlqPublishError:
    error = DlqPublishError(letter.run_id, str(cause))
    error.__cause__ = cause
    return error
