"""Errors that stop a process from starting or from working."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import NamedTuple

from pyoco_protocol.problems.base import PyocoError
from pyoco_protocol.problems.catalogue import CATALOGUE


class SettingProblem(NamedTuple):
    """An invalid setting: the variable, the fault, and an example of a valid value."""

    variable: str
    what: str
    example: str

    def __str__(self) -> str:
        return f"{self.variable}: {self.what} (example: {self.variable}={self.example})"


class SettingsError(PyocoError):
    """The environment contains invalid settings; lists all of them."""

    entry = CATALOGUE["ERR-PYOCO-0108"]

    def __init__(self, problems: Sequence[SettingProblem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


class CliUsageError(PyocoError):
    """A command has invalid arguments."""

    entry = CATALOGUE["ERR-PYOCO-0018"]

    def __init__(self, what: str, example: str) -> None:
        super().__init__(f"{what}; example: {example}")
        self.example = example


class LoggingSetupError(PyocoError):
    """Log lines cannot be written."""

    entry = CATALOGUE["ERR-PYOCO-0013"]

    def __init__(self, cause: str) -> None:
        super().__init__(f"log output failed: {cause}")


class GatewayUnreachableError(PyocoError):
    """No gateway answers at this address."""

    entry = CATALOGUE["ERR-PYOCO-0001"]
    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(f"no gateway answers at {url}: {cause}")
        self.url = url


class BrokerUnavailableError(PyocoError):
    """NATS cannot be reached or is not ready. The operation was not executed."""

    entry = CATALOGUE["ERR-PYOCO-0003"]
    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self, cause: str) -> None:
        super().__init__(f"nats unavailable: {cause}")
        self.cause = cause


class BrokerPermissionError(BrokerUnavailableError):
    """The NATS user lacks a permission. The operation was not executed.

    User and subject appear only in the log, not in `detail`, which HTTP callers receive.
    """

    entry = CATALOGUE["ERR-PYOCO-0140"]

    def __init__(self, action: str, subject: str, user: str) -> None:
        super().__init__("the broker denied an operation to the gateway or worker")
        self.action = action
        self.subject = subject
        self.user = user

    def __str__(self) -> str:
        return f"the broker denied {self.action} on {self.subject} to {self.user}"


class BrokerLoginError(BrokerUnavailableError):
    """NATS refused the login."""

    entry = CATALOGUE["ERR-PYOCO-0142"]

    def __init__(self, user: str, reason: str) -> None:
        super().__init__("the broker refused the credentials")
        self.user = user
        self.reason = reason

    def __str__(self) -> str:
        return f"the broker refused the credentials of {self.user}: {self.reason}"


class BrokerTlsError(BrokerUnavailableError):
    """The settings require TLS, and no trusted TLS connection to NATS could be made."""

    entry = CATALOGUE["ERR-PYOCO-0143"]

    def __init__(self, cause: str) -> None:
        super().__init__(f"no trusted connection to the broker: {cause}")


class BrokerTooOldError(PyocoError):
    """The JetStream API level of the NATS server is too low."""

    entry = CATALOGUE["ERR-PYOCO-0109"]
    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self, server: str, api_level: int, required: int) -> None:
        super().__init__(
            f"nats-server {server} has JetStream API level {api_level}; {required} is required"
        )


class EmbeddedBrokerError(PyocoError):
    """The embedded nats-server did not start."""

    entry = CATALOGUE["ERR-PYOCO-0112"]

    def __init__(self, cause: str) -> None:
        super().__init__(f"embedded broker not started: {cause}")


class PortBusyError(PyocoError):
    """Another process listens on the configured port."""

    entry = CATALOGUE["ERR-PYOCO-0112"]

    def __init__(self, port: int, flag: str) -> None:
        super().__init__(
            f"port {port} is in use",
            hint={
                "en": f"Choose another port with {flag}, or stop the process on port {port}.",
                "ja": f"{flag}で別のポートを指定するか、"
                f"ポート{port}を使用中のプロセスを停止してください。",
            },
        )
        self.port = port


class WorkerIdTakenError(PyocoError):
    """Another live worker has the same worker id."""

    entry = CATALOGUE["ERR-PYOCO-0117"]

    def __init__(self, worker_id: str, instance_id: str) -> None:
        super().__init__(f"worker {worker_id} is already running as instance {instance_id}")
        self.worker_id = worker_id


class BrokerLockHeldError(PyocoError):
    """Another broker uses the same data directory."""

    entry = CATALOGUE["ERR-PYOCO-0112"]

    def __init__(self, directory: str, pid: int | None) -> None:
        super().__init__(f"{directory} is in use by process {pid or '(unknown)'}")
        self.pid = pid
