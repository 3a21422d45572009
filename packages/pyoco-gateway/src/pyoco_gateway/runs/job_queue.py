"""Where accepted runs wait for a worker."""

import time
from typing import Final

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.runs.signing import JobSigner
from pyoco_protocol.subjects import Names

_MSG_ID: Final = "Nats-Msg-Id"
_EXPECTED_STREAM: Final = "Nats-Expected-Stream"
# What travels in the same message around a payload: subject, reply subject, headers.
_HEADROOM_BYTES: Final = 4096


class JobQueue:
    """Publishes jobs to the work stream, signed; returns only when they are stored."""

    def __init__(self, broker: Broker, names: Names, signer: JobSigner | None = None) -> None:
        self._broker = broker
        self._names = names
        self._signer = signer or JobSigner(())

    def seal(self, job: bytes) -> str | None:
        """Return what the record of a run that is taken in says of its job."""
        return self._signer.seal(job)

    def require_seal(self, job: bytes, given: str | None) -> None:
        """Raise JobSignatureError unless `given` is what `seal` said of this job."""
        self._signer.require_seal(job, given)

    @property
    def max_job_bytes(self) -> int:
        """The largest job that the broker takes as it is set up now."""
        return self._broker.client.max_payload - _HEADROOM_BYTES

    async def publish(self, message_id: str, tag: str, job: bytes) -> None:
        """Queue a job for the workers of `tag`; a repeat of its id within minutes is dropped.

        Raises RefusedError or BrokerUnavailableError where it surely is not queued, and
        UnknownOutcomeError where nobody can tell.
        """
        client = self._broker.require_up()
        subject = self._names.work(tag)
        headers = {
            _MSG_ID: message_id,
            _EXPECTED_STREAM: self._names.work_stream,
            **self._signer.headers(subject, job, now=time.time()),
        }
        await ask(client, subject, job, headers=headers)
