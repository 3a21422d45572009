"""What keeps a process from starting or from doing its work."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import NamedTuple

from pyoco_protocol.problems.base import PyocoError
from pyoco_protocol.problems.catalogue import CATALOGUE


class SettingProblem(NamedTuple):
    """One bad setting: which variable, what is wrong with it, and a value that would do."""

    variable: str
    what: str
    example: str

    def __str__(self) -> str:
        return f"{self.variable}: {self.what} (example: {self.variable}={self.example})"


class SettingsError(PyocoError):
    """The environment holds settings we cannot start with; all of them are told at once."""

    entry = CATALOGUE["ERR-PYOCO-0108"]

    def __init__(self, problems: Sequence[SettingProblem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


class CliUsageError(PyocoError):
    """A command was called in a way it does not understand."""

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
    """NATS cannot be reached or is not ready; what was asked for was not done."""

    entry = CATALOGUE["ERR-PYOCO-0003"]
    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self, cause: str) -> None:
        super().__init__(f"nats unavailable: {cause}")
        self.cause = cause


class BrokerPermissionError(BrokerUnavailableError):
    """NATS does not let our user do this; it was not done.

    Who we are and what we wanted is for the log: whoever called us over HTTP reads `detail`.
    """

    entry = CATALOGUE["ERR-PYOCO-0140"]

    def __init__(self, action: str, subject: str, user: str) -> None:
        super().__init__("the broker does not permit this to the gateway or worker")
        self.action = action
        self.subject = subject
        self.user = user

    def __str__(self) -> str:
        return f"the broker does not permit {self.action} on {self.subject} to {self.user}"


class BrokerLoginError(BrokerUnavailableError):
    """NATS does not let us in."""

    entry = CATALOGUE["ERR-PYOCO-0142"]

    def __init__(self, user: str, said: str) -> None:
        super().__init__("the broker refused the credentials")
        self.user = user
        self.said = said

    def __str__(self) -> str:
        return f"the broker refused the credentials of {self.user}: {self.said}"


class BrokerTlsError(BrokerUnavailableError):
    """There is no connection to NATS that nobody can listen to, and we insist on one."""

    entry = CATALOGUE["ERR-PYOCO-0143"]

    def __init__(self, cause: str) -> None:
        super().__init__(f"no trusted connection to the broker: {cause}")


class BrokerTooOldError(PyocoError):
    """The NATS server lacks what we need."""

    entry = CATALOGUE["ERR-PYOCO-0109"]
    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self, server: str, api_level: int, required: int) -> None:
        super().__init__(
            f"nats-server {server} has JetStream API level {api_level}; {required} is needed"
        )


class EmbeddedBrokerError(PyocoError):
    """Our own nats-server did not come up."""

    entry = CATALOGUE["ERR-PYOCO-0112"]

    def __init__(self, cause: str) -> None:
        super().__init__(f"embedded broker not started: {cause}")


class PortBusyError(PyocoError):
    """Another process listens on the port we were given."""

    entry = CATALOGUE["ERR-PYOCO-0112"]

    def __init__(self, port: int, flag: str) -> None:
        super().__init__(
            f"port {port} is in use",
            hint={
                "en": f"Choose another port with {flag}, or stop what listens on {port}.",
                "ja": f"{flag}で別のポートを指定するか、"
                f"ポート{port}を使用中のプロセスを停止してください。",
            },
        )
        self.port = port


class WorkerIdTakenError(PyocoError):
    """Another live worker goes by the id that this one was given."""

    entry = CATALOGUE["ERR-PYOCO-0117"]

    def __init__(self, worker_id: str, instance_id: str) -> None:
        super().__init__(f"worker {worker_id} is alive as instance {instance_id}")
        self.worker_id = worker_id


class BrokerLockHeldError(PyocoError):
    """Another broker works on the same data directory."""

    entry = CATALOGUE["ERR-PYOCO-0112"]

    def __init__(self, directory: str, pid: int | None) -> None:
        super().__init__(f"{directory} is in use by process {pid or '(unknown)'}")
        self.pid = pid
