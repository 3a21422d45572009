"""One request to JetStream, and the three ways it can end."""

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

import nats.errors
from nats.aio.client import Client

from pyoco_protocol.problems import BrokerPermissionError, BrokerUnavailableError

_log = logging.getLogger(__name__)

# Longer than a leader election of a small cluster usually takes to be noticed, shorter than
# what a person waits for an answer.
REQUEST_TIMEOUT_SEC: Final = 5.0
_KNOWN_SEC: Final = 2.0

_WRONG_LAST_SEQUENCE: Final = frozenset({10071, 10164})
_NO_STREAM: Final = 10059


class UnknownOutcomeError(BrokerUnavailableError):
    """No answer came in time: the request may have been carried out, or may be later."""


class DeniedError(nats.errors.Error):
    """The server has said that our user may not publish or subscribe here."""

    def __init__(self, action: str, subject: str, user: str) -> None:
        super().__init__(f"no permission for {action} on {subject} for {user}")
        self.action = action
        self.subject = subject
        self.user = user


class RefusedError(Exception):
    """JetStream has answered no; nothing was carried out."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{description} ({err_code})")
        self.code = code
        self.err_code = err_code
        self.description = description

    @property
    def is_conflict(self) -> bool:
        """Whether the subject has moved on since it was read."""
        return self.err_code in _WRONG_LAST_SEQUENCE

    @property
    def is_missing(self) -> bool:
        """Whether there is no such stream."""
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

    Raises RefusedError for an answer that says no, BrokerUnavailableError where the request
    surely was not carried out (BrokerPermissionError where we may not ask for it at all), and
    UnknownOutcomeError where nobody can tell.
    """
    if not client.is_connected:
        # The client would keep the request and send it after the outage, long after
        # whoever asked was told that it failed.
        raise BrokerUnavailableError("not connected to the broker")
    try:
        reply = await client.request(
            subject, payload, timeout=timeout_sec, headers=dict(headers) if headers else None
        )
    except DeniedError as error:
        raise BrokerPermissionError(error.action, error.subject, error.user) from error
    except nats.errors.NoRespondersError as error:
        raise BrokerUnavailableError(f"nobody answers on {subject}") from error
    except (TimeoutError, nats.errors.TimeoutError) as error:
        raise UnknownOutcomeError(f"no answer on {subject} in {timeout_sec:g} s") from error
    except nats.errors.MaxPayloadError as error:
        raise RefusedError(413, 10054, "message size exceeds maximum allowed") from error
    except (nats.errors.ConnectionClosedError, nats.errors.OutboundBufferLimitError) as error:
        raise BrokerUnavailableError("the connection to the broker is closed") from error
    except (nats.errors.Error, OSError) as error:
        raise UnknownOutcomeError(f"the request on {subject} was cut off") from error
    answer: dict[str, Any] = json.loads(reply.data)
    if (refusal := answer.get("error")) is not None:
        raise RefusedError(
            int(refusal.get("code", 0)),
            int(refusal.get("err_code", 0)),
            str(refusal.get("description", "refused")),
        )
    return answer


async def until_known(client: Client) -> None:
    """Return when the server knows of our subscriptions: until then others speak to nobody.

    Not by `client.flush`: where its caller gives up, or the server is late, the answer that
    comes after that ends the reading of the connection, for all who use it.
    """
    try:
        await client.request(client.new_inbox(), timeout=_KNOWN_SEC)
    except (nats.errors.NoRespondersError, DeniedError):
        # What we hoped for: the server has come this far.
        return
    except (nats.errors.Error, TimeoutError, OSError) as error:
        # They are told again with the next connect.
        _log.debug("subscriptions not confirmed", extra={"reason": str(error)})
