"""Restores the logging configuration of the process after each test."""

import logging
from collections.abc import Iterator

import pytest

from pyoco_protocol.logging.setup import LineHandler


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    """Undo changes of the process-wide logging configuration."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)
    for handler in list(root.handlers):
        if isinstance(handler, LineHandler | logging.NullHandler):
            root.removeHandler(handler)
    logging.captureWarnings(capture=False)
