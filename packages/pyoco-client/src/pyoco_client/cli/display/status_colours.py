"""The colour of each status of a run, execution, task, node or worker."""

from typing import Final

STATUS_COLOURS: Final = {
    "COMPLETED": "green",
    "SUCCEEDED": "green",
    "RUNNING": "cyan",
    "ACTIVE": "cyan",
    "READY": "cyan",
    "WAITING": "magenta",
    "FAILED": "red",
    "CANCELLING": "yellow",
    "CANCELLED": "yellow",
    "CANCELED": "yellow",
}
# A worker that is IDLE is healthy; a node that is IDLE has not begun.
STATE_COLOURS: Final = {**STATUS_COLOURS, "IDLE": "green", "DISCONNECTED": "red"}
