"""Named places at which a test can have the process killed or frozen; inert in production."""

import os
import signal
from enum import StrEnum
from typing import Final

_VARIABLE: Final = "PYOCO_FAILPOINT"
_SIGNALS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class Failpoint(StrEnum):
    """Where a process can be struck: after the fact that the name tells."""

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


def _armed() -> tuple[str, signal.Signals] | None:
    place, _, action = os.environ.get(_VARIABLE, "").partition(":")  # noqa: TID251 - tests only
    return (Failpoint(place), _SIGNALS[action]) if place else None


_ARMED: Final = _armed()


def reached(place: Failpoint) -> None:
    """Strike here if a test asked for it: `PYOCO_FAILPOINT=run-claimed:kill`."""
    if _ARMED is not None and _ARMED[0] == place:
        os.kill(os.getpid(), _ARMED[1])
