"""A gateway that takes commands."""

import httpx
import pytest

from executions.commands.command_client import Commands


@pytest.fixture
def commands(gateway: httpx.AsyncClient) -> Commands:
    """Give a client of a gateway without keys."""
    return Commands(gateway)
