"""Publishes the jobs of accepted runs to the work stream."""

import time
from typing import Final

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.runs.signing import JobSigner
from pyoco_protocol.subjects import Names

_MSG_ID: Final = "Nats-Msg-Id"
_EXPECTED_STREAM: Final = "Nats-Expected-Stream"
# Reserved in each message for the subject, the reply subject and the headers.
_HEADROOM_BYTES: Final = 4096


class JobQueue:
    """Publishes signed jobs and waits until the broker has stored them."""

    def __init__(self, broker: Broker, names: Names, signer: JobSigner | None = None) -> None:
        self._broker = broker
        self._names = names
        self._signer = signer or JobSigner(())

    def seal(self, job: bytes) -> str | None:
        """Return the seal of a job, which is stored in the run's record."""
        return self._signer.seal(job)

    def require_seal(self, job: bytes, given: str | None) -> None:
        """Raise JobSignatureError unless `given` is the seal of this job."""
        self._signer.require_seal(job, given)

    @property
    def max_job_bytes(self) -> int:
        """The largest job that the connected broker accepts."""
        return self._broker.client.max_payload - _HEADROOM_BYTES

    async def publish(self, message_id: str, tag: str, job: bytes) -> None:
        """Queue a job for the workers of `tag`; the broker drops a repeated id within minutes.

        Raises RefusedError or BrokerUnavailableError if the job is certainly not queued, and
        UnknownOutcomeError if it may be.
        """
        client = self._broker.require_up()
        subject = self._names.work(tag)
        headers = {
            _MSG_ID: message_id,
            _EXPECTED_STREAM: self._names.work_stream,
            **self._signer.headers(subject, job, now=time.time()),
        }
        await ask(client, subject, job, headers=headers)
