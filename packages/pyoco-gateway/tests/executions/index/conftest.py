"""An index that follows the executions of a fresh broker."""

from collections.abc import AsyncGenerator

import pytest

from executions.index.indexed import Indexed, indexing
from stored_executions import StoredExecutions


@pytest.fixture
async def indexed(stored: StoredExecutions) -> AsyncGenerator[Indexed]:
    """Give an index that follows the executions."""
    async with indexing(stored) as running:
        yield running
