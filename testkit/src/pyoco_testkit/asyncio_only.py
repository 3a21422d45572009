"""A pytest plugin that runs async tests on asyncio, as the product does."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Return the name of the only backend; anyio itself would run each test on all of them."""
    return "asyncio"
