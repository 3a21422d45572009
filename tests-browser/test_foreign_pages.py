"""With keys off, a page of another origin cannot change anything unless its origin is trusted."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from playwright.async_api import Page, Request

from pyoco_testkit.stack import Stack

FOREIGN_PAGE = Path(__file__).with_name("foreign_page.html").read_bytes()
# The requests of the page that a gateway that trusts the page accepts. For the others the browser
# asks the gateway first and gets no permission, or the gateway refuses their content type.
SUBMITTING = {
    "submit a file by form",
    "submit a file by fetch",
    "submit a file by XMLHttpRequest",
    "submit a file by sendBeacon",
}
CANCELLING = {"cancel by fetch", "cancel by XMLHttpRequest", "cancel by sendBeacon"}


class ForeignServer(BaseHTTPRequestHandler):
    """Answers every GET with the foreign page; the page at `/sandboxed` has the origin `null`."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        if self.path.startswith("/sandboxed"):
            self.send_header("Content-Security-Policy", "sandbox allow-scripts allow-forms")
        self.end_headers()
        self.wfile.write(FOREIGN_PAGE)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
        """Print nothing."""


@pytest.fixture
def foreign_port() -> Iterator[int]:
    """Serve the foreign page on another port of this machine, and return the port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), ForeignServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


async def names_of_requests(page: Page, at: str) -> list[str]:
    await page.goto(at)
    names: list[str] = await page.evaluate("Object.keys(REQUESTS)")
    return names


async def send(page: Page, at: str, name: str, gateway: str, run_id: str) -> None:
    """Let the page at `at` send a request, and return when the browser has finished it."""
    finished = anyio.Event()
    paths: list[str] = []

    def note(request: Request) -> None:
        if request.url.startswith(gateway):
            paths.append(urlsplit(request.url).path)
            finished.set()

    # A form may have left the page.
    await page.goto(at)
    page.on("requestfinished", note)
    # The browser hides the answer from the page, and reports the request as failed.
    page.on("requestfailed", note)
    await page.evaluate(
        "([name, gateway, runId]) => { REQUESTS[name](gateway, runId) }", [name, gateway, run_id]
    )
    with anyio.fail_after(20):
        await finished.wait()
    page.remove_listener("requestfinished", note)
    page.remove_listener("requestfailed", note)
    assert paths[0].startswith("/runs"), name


async def runs(stack: Stack) -> dict[str, str]:
    """Return the status of each run."""
    found = (await stack.client.http.get("/runs")).json()
    return {run["run_id"]: run["status"] for run in found}


@pytest.mark.parametrize(
    ("address", "gateway_host"),
    [
        # The browser sends `Sec-Fetch-Site: same-site`,
        ("http://127.0.0.1:{port}/", "127.0.0.1"),
        ("http://localhost:{port}/", "localhost"),
        # `cross-site`,
        ("http://localhost:{port}/", "127.0.0.1"),
        # and `Origin: null`.
        ("http://127.0.0.1:{port}/sandboxed", "127.0.0.1"),
    ],
)
async def test_a_page_on_another_port_cannot_change_anything(
    page: Page, stack: Stack, foreign_port: int, address: str, gateway_host: str
) -> None:
    at = address.format(port=foreign_port)
    run_id = await stack.client.submit("hello")

    changed = []
    for name in await names_of_requests(page, at):
        before = await runs(stack)
        await send(page, at, name, f"http://{gateway_host}:{stack.port}", run_id)
        if await runs(stack) != before:
            changed.append(name)

    assert changed == []
    assert await runs(stack) == {run_id: "PENDING"}


async def test_a_trusted_page_can_submit_and_cancel_but_not_read_or_send_json(
    page: Page, tmp_path: Path, foreign_port: int
) -> None:
    """It sends the same requests as above, which shows that the gateway refused them there."""
    trusted = f"http://127.0.0.1:{foreign_port}"
    changed = set()
    async with Stack(tmp_path / "stack", env={"PYOCO_TRUSTED_ORIGINS": trusted}) as stack:
        for name in await names_of_requests(page, trusted):
            run_id = await stack.client.submit("hello")
            before = await runs(stack)
            await send(page, trusted, name, stack.url, run_id)
            if await runs(stack) != before:
                changed.add(name)
        await page.goto(trusted)
        read = await page.evaluate(
            "(url) => fetch(url).then((answer) => answer.text(), (error) => error.name)",
            f"{stack.url}/runs",
        )

    assert changed == SUBMITTING | CANCELLING
    assert read == "TypeError"


@pytest.mark.parametrize(
    "address", ["http://localhost:{port}/", "http://127.0.0.1:{port}/sandboxed"]
)
async def test_trust_in_an_origin_covers_no_other_name_and_no_sandboxed_page(
    page: Page, tmp_path: Path, foreign_port: int, address: str
) -> None:
    at = address.format(port=foreign_port)
    trusted = {"PYOCO_TRUSTED_ORIGINS": f"http://127.0.0.1:{foreign_port}"}
    async with Stack(tmp_path / "stack", env=trusted) as stack:
        run_id = await stack.client.submit("hello")
        for name in sorted(SUBMITTING | CANCELLING):
            await send(page, at, name, stack.url, run_id)
        after = await runs(stack)

    assert after == {run_id: "PENDING"}


async def test_a_page_on_another_port_cannot_read_anything(
    page: Page, stack: Stack, foreign_port: int
) -> None:
    run_id = await stack.client.submit("hello")
    await page.goto(f"http://127.0.0.1:{foreign_port}/")

    for path in ("/", "/runs", f"/runs/{run_id}", f"/runs/{run_id}/watch", "/metrics", "/health"):
        outcome = await page.evaluate(
            "(url) => fetch(url).then((answer) => answer.text(), (error) => error.name)",
            stack.url + path,
        )
        assert outcome == "TypeError", path
    watched = await page.evaluate(
        """(url) => new Promise((resolve) => {
          const source = new EventSource(url);
          source.addEventListener("snapshot", () => resolve("read"));
          source.onopen = () => resolve("opened");
          source.onerror = () => { source.close(); resolve("refused"); };
        })""",
        f"{stack.url}/runs/{run_id}/watch",
    )
    assert watched == "refused"
