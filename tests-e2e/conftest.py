"""What all stories share: where their flows are."""

from pathlib import Path

import pytest

from pyoco_testkit.stack import flows_at


@pytest.fixture(scope="session")
def flows() -> str:
    """Give the resolver of the stories' flows."""
    return flows_at(Path(__file__).parent / "flows" / "stories.py")
