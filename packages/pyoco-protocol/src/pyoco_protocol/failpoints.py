"""Named points where a test can kill or stop the process. No effect in production."""

import os
import signal
from enum import StrEnum
from typing import Final

_VARIABLE: Final = "PYOCO_FAILPOINT"
_SIGNALS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class Failpoint(StrEnum):
    """A point in the code, right after the event that its name describes."""

    SUBMIT_CREATED = "submit-created"
    SUBMIT_PUBLISHED = "submit-published"
    CANCEL_RECORDED = "cancel-recorded"
    JOB_DELIVERED = "job-delivered"
    RUN_CLAIMED = "run-claimed"
    FLOW_OVER = "flow-over"
    END_STORED = "end-stored"
    LETTER_STORED = "letter-stored"
    JOB_ACKED = "job-acked"
    LETTER_REDRIVEN = "letter-redriven"
    COMMAND_DECIDED = "command-decided"
    COMMAND_COMMITTED = "command-committed"


def _armed() -> tuple[str, signal.Signals] | None:
    place, _, action = os.environ.get(_VARIABLE, "").partition(":")  # noqa: TID251 - tests only
    return (Failpoint(place), _SIGNALS[action]) if place else None


_ARMED: Final = _armed()


def reached(place: Failpoint) -> None:
    """Signal this process if a test set the failpoint, as in `PYOCO_FAILPOINT=run-claimed:kill`."""
    if _ARMED is not None and _ARMED[0] == place:
        os.kill(os.getpid(), _ARMED[1])
