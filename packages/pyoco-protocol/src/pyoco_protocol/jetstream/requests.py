"""Requests to JetStream and their three outcomes: answered, failed, unknown."""

import json
import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import nats.errors
from nats.aio.client import Client

from pyoco_protocol.problems import BrokerPermissionError, BrokerUnavailableError

_log = logging.getLogger(__name__)

# Longer than a leader election in a small cluster usually takes, and still acceptable for a
# person who waits for the response.
REQUEST_TIMEOUT_SEC: Final = 5.0
_CONFIRM_SEC: Final = 2.0

_WRONG_LAST_SEQUENCE: Final = frozenset({10071, 10164})
_NO_STREAM: Final = 10059


class UnknownOutcomeError(BrokerUnavailableError):
    """No answer arrived in time; the request may have been executed, or may be later."""


class DeniedError(nats.errors.Error):
    """The server denied publishing or subscribing to a subject."""

    def __init__(self, action: str, subject: str, user: str) -> None:
        super().__init__(f"no permission for {action} on {subject} for {user}")
        self.action = action
        self.subject = subject
        self.user = user


class RefusedError(Exception):
    """JetStream answered with an error; nothing was executed."""

    # To a caller this means that the broker is unavailable.
    entry: ClassVar = BrokerUnavailableError.entry

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{description} ({err_code})")
        self.code = code
        self.err_code = err_code
        self.description = description

    @property
    def is_conflict(self) -> bool:
        """Whether the subject has a newer message than the expected one."""
        return self.err_code in _WRONG_LAST_SEQUENCE

    @property
    def is_missing(self) -> bool:
        """Whether the stream does not exist."""
        return self.err_code == _NO_STREAM


async def ask(
    client: Client,
    subject: str,
    payload: bytes = b"",
    *,
    headers: Mapping[str, str] | None = None,
    timeout_sec: float = REQUEST_TIMEOUT_SEC,
) -> dict[str, Any]:
    """Return JetStream's answer to a request.

    Raises RefusedError if the answer is an error, BrokerUnavailableError if the request was
    certainly not executed (BrokerPermissionError if the NATS user lacks the permission), and
    UnknownOutcomeError if the request may have been executed.
    """
    if not client.is_connected:
        # The library would buffer the request and send it after the outage, long after the
        # caller was told that it failed.
        raise BrokerUnavailableError("not connected to the broker")
    try:
        reply = await client.request(
            subject, payload, timeout=timeout_sec, headers=dict(headers) if headers else None
        )
    except DeniedError as error:
        raise BrokerPermissionError(error.action, error.subject, error.user) from error
    except nats.errors.NoRespondersError as error:
        raise BrokerUnavailableError(f"no responder on {subject}") from error
    except (TimeoutError, nats.errors.TimeoutError) as error:
        raise UnknownOutcomeError(f"no answer on {subject} in {timeout_sec:g} s") from error
    except nats.errors.MaxPayloadError as error:
        raise RefusedError(413, 10054, "message size exceeds maximum allowed") from error
    except (nats.errors.ConnectionClosedError, nats.errors.OutboundBufferLimitError) as error:
        raise BrokerUnavailableError("the connection to the broker is closed") from error
    except (nats.errors.Error, OSError) as error:
        raise UnknownOutcomeError(f"the request on {subject} was interrupted") from error
    answer: dict[str, Any] = json.loads(reply.data)
    if (refusal := answer.get("error")) is not None:
        raise RefusedError(
            int(refusal.get("code", 0)),
            int(refusal.get("err_code", 0)),
            str(refusal.get("description", "refused")),
        )
    return answer


async def confirm_subscriptions(client: Client) -> None:
    """Wait until the server has registered all subscriptions of this client.

    `client.flush` is not used: if its caller is cancelled or the server answers late, the late
    answer stops the library's read loop and breaks the connection for all users.
    """
    try:
        await client.request(client.new_inbox(), timeout=_CONFIRM_SEC)
    except (nats.errors.NoRespondersError, DeniedError):
        # The expected answer: the server has processed everything sent before.
        return
    except (nats.errors.Error, TimeoutError, OSError) as error:
        # The library subscribes again with the next connect.
        _log.debug("subscriptions not confirmed", extra={"reason": str(error)})
