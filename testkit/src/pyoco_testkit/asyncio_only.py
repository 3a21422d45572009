"""A pytest plugin of one fixture: async tests run on the event loop the product runs on."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Give the name of that event loop, in place of every one anyio knows."""
    return "asyncio"
