"""The colour of each status of a run, task or worker."""

from typing import Final

STATUS_COLOURS: Final = {
    "COMPLETED": "green",
    "SUCCEEDED": "green",
    "RUNNING": "cyan",
    "IDLE": "green",
    "FAILED": "red",
    "DISCONNECTED": "red",
    "CANCELLING": "yellow",
    "CANCELLED": "yellow",
}
