"""Fixtures of the browser tests: one Chromium for the test run, a new page for each test."""

import os
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, async_playwright

from pyoco_testkit.stack import flows_at

# Without these options Chromium calls servers of its vendor, or uses the proxy of the user.
OFFLINE = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--chromium COMMAND`."""
    parser.getgroup("pyoco").addoption(
        "--chromium",
        default=shutil.which("chromium"),
        metavar="COMMAND",
        help="the Chromium to start; `chromium` on PATH by default",
    )


@pytest.fixture(scope="session")
async def browser(request: pytest.FixtureRequest) -> AsyncGenerator[Browser]:
    """Start a headless Chromium; playwright's own browser would have to be downloaded."""
    command = request.config.getoption("--chromium")
    assert command, "no Chromium found: install it (Debian: apt-get install chromium)"
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(
            executable_path=command,
            args=OFFLINE,
            # The sandbox does not work for root.
            chromium_sandbox=os.geteuid() != 0,
        )
        yield running
        await running.close()


@pytest.fixture
async def page(browser: Browser) -> AsyncGenerator[Page]:
    """Open an empty page that shares no cookies, storage or cache with the page of another test."""
    context = await browser.new_context()
    context.set_default_timeout(20_000)
    yield await context.new_page()
    await context.close()


@pytest.fixture(scope="session")
def flows() -> str:
    """Return the resolver of the flows that the end-to-end tests use."""
    return flows_at(Path(__file__).parents[1] / "tests-e2e" / "flows" / "python_flows.py")
