"""Level and format of the process log."""

from typing import Annotated, Literal

from pyoco_protocol.settings.base import PyocoSettings, setting
from pyoco_protocol.settings.values import (
    LOWER,
    UPPER,
    Boolean,
)


class LogSettings(PyocoSettings):
    """Level and format of the process log."""

    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], UPPER] = setting(
        "INFO", "Lowest level to log.", "DEBUG"
    )
    log_format: Annotated[Literal["json", "text"], LOWER] = setting(
        "json", "`json` for machines, `text` for people; each record is one line.", "text"
    )
    log_utc: Boolean = setting(
        True, "Whether times are in UTC; otherwise local time with its offset.", "true"
    )
    log_include_traceback: Boolean = setting(
        True,
        "Whether tracebacks are logged; type, message and location of an exception always are.",
        "true",
    )
