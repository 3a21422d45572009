"""All that can go wrong between a caller and the gateway: one tree, and how answers map to it."""

from collections.abc import Mapping
from typing import Any, Final


class PyocoError(Exception):
    """The root of the tree; carries what the gateway, or the catalogue, says about the failure.

    `err_id` and `msg_id` are stable ids, `hint` says what to do next, `request_id` is what an
    operator can look up in the gateway's log, `status` is the HTTP status. Each is None where
    it is not known.
    """

    def __init__(
        self,
        message: str,
        *,
        err_id: str | None = None,
        msg_id: str | None = None,
        hint: str | None = None,
        request_id: str | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.err_id = err_id
        self.msg_id = msg_id
        self.hint = hint
        self.request_id = request_id
        self.status = status

    def __str__(self) -> str:
        return f"{self.err_id}: {self.message}" if self.err_id else self.message


class GatewayUnreachableError(PyocoError):
    """No answer came from the gateway (ERR-PYOCO-0001).

    `may_have_arrived` is False where the request surely never got there. Where it is True a
    submission may have been accepted all the same: look before you submit again.
    """

    def __init__(self, server: str, reason: str, *, may_have_arrived: bool) -> None:
        # Late: the catalogue brings pydantic along, which a command line that goes well and
        # `--help` need not pay for.
        from pyoco_protocol.problems import CATALOGUE

        entry = CATALOGUE["ERR-PYOCO-0001"]
        super().__init__(
            f"no answer from {server}: {reason}",
            err_id=entry.err_id,
            msg_id=entry.msg_id,
            hint=entry.hint["en"],
        )
        self.server = server
        self.may_have_arrived = may_have_arrived


class UnexpectedAnswerError(PyocoError):
    """Something answered that does not speak like a gateway: a proxy, or another server."""

    def __init__(self, server: str, what: str, status: int | None = None) -> None:
        super().__init__(
            f"{server} does not answer like a gateway: {what}",
            hint="Check that the address is that of a Pyoco gateway, not of a proxy before it.",
            status=status,
        )
        self.server = server


class WaitTimeoutError(PyocoError, TimeoutError):
    """The run had not ended when the caller's patience did; the run itself goes on."""

    def __init__(self, run_id: str, timeout: float, last_status: str | None) -> None:
        super().__init__(
            f"run {run_id} is {last_status or 'in an unknown state'} after {timeout:g} s",
            hint="The run goes on; wait again or look it up later by its run id.",
        )
        self.run_id = run_id
        self.last_status = last_status


class PyocoApiError(PyocoError):
    """The gateway has answered no. `detail` is its own account of what is wrong here."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        def text(name: str) -> str | None:
            value = body.get(name)
            return value if isinstance(value, str) else None

        self.detail: Any = body.get("detail")
        super().__init__(
            text("message") or (self.detail if isinstance(self.detail, str) else f"HTTP {status}"),
            err_id=text("err_id"),
            msg_id=text("msg_id"),
            hint=text("hint"),
            request_id=text("request_id"),
            status=status,
        )
        self.body: Final = dict(body)


class InvalidRequestError(PyocoApiError):
    """The request itself is wrong; sending it again does not help."""


class RunNotFoundError(PyocoApiError):
    """No run has this id, or the caller may not see it."""


class BrokerUnavailableError(PyocoApiError):
    """The gateway is up, its broker is not; nothing was changed."""


class SubmissionUnconfirmedError(PyocoApiError):
    """Nobody can say whether the run was accepted; `run_id` is where to look."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(status, body)
        run_id = body.get("run_id")
        self.run_id: str | None = run_id if isinstance(run_id, str) else None


_BY_ERR_ID: Final[Mapping[str, type[PyocoApiError]]] = {
    "ERR-PYOCO-0002": InvalidRequestError,
    "ERR-PYOCO-0003": BrokerUnavailableError,
    "ERR-PYOCO-0005": RunNotFoundError,
    "ERR-PYOCO-0101": InvalidRequestError,
    "ERR-PYOCO-0107": SubmissionUnconfirmedError,
}


def api_error(status: int, body: Mapping[str, Any]) -> PyocoApiError:
    """Return the error a problem body stands for; an id not known yet is a plain PyocoApiError."""
    return _BY_ERR_ID.get(str(body.get("err_id")), PyocoApiError)(status, body)
