"""Errors of runs, their jobs and their records."""

from pyoco_protocol.problems.base import FaultyInputError, PyocoError
from pyoco_protocol.problems.catalogue import CATALOGUE


class FlowNotFoundError(PyocoError):
    """The worker does not have the flow of the run."""

    entry = CATALOGUE["ERR-PYOCO-0006"]

    def __init__(self, flow_name: str) -> None:
        super().__init__(f"flow {flow_name} not found", extra={"flow_name": flow_name})
        self.flow_name = flow_name


class CallableNotAllowedError(PyocoError):
    """A task of a workflow file calls a function that the worker does not allow."""

    entry = CATALOGUE["ERR-PYOCO-0119"]

    def __init__(self, run_id: str, what: str) -> None:
        super().__init__(what, extra={"run_id": run_id})
        self.run_id = run_id


class ExecutionFailedError(PyocoError):
    """The flow raised an exception."""

    entry = CATALOGUE["ERR-PYOCO-0007"]

    def __init__(self, run_id: str, cause: str) -> None:
        super().__init__(f"run {run_id} failed: {cause}", extra={"run_id": run_id})
        self.run_id = run_id


class ChildDiedError(PyocoError):
    """The child process ended before the flow did."""

    entry = CATALOGUE["ERR-PYOCO-0113"]

    def __init__(self, run_id: str, how: str) -> None:
        super().__init__(f"the process that ran {run_id} ended: {how}", extra={"run_id": run_id})
        self.run_id = run_id


class ChildLimitError(PyocoError):
    """The child process exceeded a limit of its worker, such as memory or CPU time."""

    entry = CATALOGUE["ERR-PYOCO-0126"]

    def __init__(self, run_id: str, what: str) -> None:
        super().__init__(what, extra={"run_id": run_id})
        self.run_id = run_id


class AttemptsExhaustedError(PyocoError):
    """A run was started as often as allowed, and no attempt ended."""

    entry = CATALOGUE["ERR-PYOCO-0116"]

    def __init__(self, run_id: str, attempts: int) -> None:
        super().__init__(
            f"stopped after {attempts} attempts, none of which ended",
            extra={"run_id": run_id},
        )
        self.run_id = run_id


class RunTimedOutError(PyocoError):
    """A run exceeded its time limit."""

    entry = CATALOGUE["ERR-PYOCO-0114"]

    def __init__(self, run_id: str, timeout_sec: float) -> None:
        super().__init__(
            f"run {run_id} took longer than {timeout_sec:g} s",
            extra={"run_id": run_id, "timeout_sec": timeout_sec},
        )
        self.run_id = run_id


class CancelTimeoutError(PyocoError):
    """A cancelled run did not stop within the grace period."""

    entry = CATALOGUE["ERR-PYOCO-0021"]

    def __init__(self, run_id: str, grace_sec: float) -> None:
        super().__init__(
            f"run {run_id} did not stop within {grace_sec:g} s of its cancel",
            extra={"run_id": run_id, "grace_sec": grace_sec},
        )
        self.run_id = run_id


class InvalidJobError(FaultyInputError):
    """A message on a work subject is not a valid job."""

    entry = CATALOGUE["ERR-PYOCO-0012"]


class JobSignatureError(InvalidJobError):
    """The signature of a job is missing or does not match."""

    entry = CATALOGUE["ERR-PYOCO-0141"]

    def __init__(self, what: str) -> None:
        super().__init__([("signature", what)])


class DlqPublishError(PyocoError):
    """A dead letter could not be published."""

    entry = CATALOGUE["ERR-PYOCO-0011"]

    def __init__(self, run_id: str | None, cause: str) -> None:
        super().__init__(
            f"the dead letter of run {run_id or '(unknown)'} is not published: {cause}",
            extra={"run_id": run_id},
        )
        self.run_id = run_id


class TerminalWriteError(PyocoError):
    """The terminal state of a run could not be stored yet."""

    entry = CATALOGUE["ERR-PYOCO-0008"]

    def __init__(self, run_id: str, cause: str) -> None:
        super().__init__(
            f"the terminal state of run {run_id} is not stored: {cause}", extra={"run_id": run_id}
        )
        self.run_id = run_id


class InProgressError(PyocoError):
    """The in_progress acknowledgement of a job could not be sent."""

    entry = CATALOGUE["ERR-PYOCO-0009"]

    def __init__(self, run_id: str, cause: str) -> None:
        super().__init__(
            f"in_progress not sent for run {run_id}: {cause}", extra={"run_id": run_id}
        )
        self.run_id = run_id


class SnapshotTooLargeError(PyocoError):
    """A snapshot stays above its limit even without task records."""

    entry = CATALOGUE["ERR-PYOCO-0010"]

    def __init__(self, run_id: str, size_bytes: int, max_bytes: int) -> None:
        super().__init__(
            f"the snapshot of run {run_id} is {size_bytes} bytes; the limit is {max_bytes} bytes",
            extra={"run_id": run_id, "size_bytes": size_bytes, "max_bytes": max_bytes},
        )
        self.run_id = run_id


class SnapshotUnreadableError(PyocoError):
    """The stored record of a run is not a valid snapshot."""

    entry = CATALOGUE["ERR-PYOCO-0115"]

    def __init__(self, run_id: str) -> None:
        super().__init__(f"the stored record of run {run_id} cannot be read")
        self.run_id = run_id


class OrphanRunError(PyocoError):
    """The job of a run could not be published, and its record could not be deleted."""

    entry = CATALOGUE["ERR-PYOCO-0004"]

    def __init__(self, run_id: str, cause: str) -> None:
        super().__init__(f"run {run_id} may be left over: {cause}", extra={"run_id": run_id})
        self.run_id = run_id


class WheelSyncError(PyocoError):
    """A worker could not download, store or install wheels."""

    entry = CATALOGUE["ERR-PYOCO-0024"]

    def __init__(self, wheel_name: str | None, cause: str) -> None:
        super().__init__(
            f"{wheel_name or 'wheels'} not synchronised: {cause}", extra={"wheel_name": wheel_name}
        )
