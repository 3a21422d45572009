"""The log of a gateway process."""

import logging
from collections.abc import Mapping
from typing import Final, TextIO

from pyoco_gateway.settings import environment_notes
from pyoco_protocol.logging.setup import configure_logging
from pyoco_protocol.settings import LogSettings

SERVICE: Final = "pyoco-server:http"

_log = logging.getLogger(__name__)


def start_logging(
    settings: LogSettings, environ: Mapping[str, str], *, stream: TextIO | None = None
) -> None:
    """Send the log to `stream`, by default stdout; log the notes about the environment."""
    configure_logging(SERVICE, settings, stream=stream)
    for note in environment_notes(environ):
        _log.warning("environment", extra={"note": note})
