"""With keys off, a page of the gateway can use its HTTP API."""

import anyio
import pytest
from playwright.async_api import Page

from pyoco_testkit.stack import Stack

SUBMIT_WATCH_CANCEL = """async () => {
  const submitted = await fetch("/runs", {
    method: "POST",
    headers: {"Content-Type": "application/json"},
    body: JSON.stringify({flow_name: "nap", params: {seconds: 60}}),
  });
  const {run_id: runId} = await submitted.json();
  const statuses = [];
  let cancelled = null;
  await new Promise((resolve, reject) => {
    const source = new EventSource(`/runs/${runId}/watch`);
    source.onerror = () => reject(new Error("the stream ended early"));
    source.addEventListener("snapshot", (event) => {
      const {status} = JSON.parse(event.data).snapshot;
      if (statuses.at(-1) !== status) statuses.push(status);
      if (status === "RUNNING" && cancelled === null) {
        cancelled = fetch(`/runs/${runId}/cancel`, {method: "POST"});
      }
      if (status === "CANCELLED") {
        source.close();
        resolve();
      }
    });
  });
  return {runId, statuses, answers: [submitted.status, (await cancelled).status]};
}"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_fetch_submits_watches_and_cancels_a_run(
    page: Page, stack: Stack, flows: str, host: str
) -> None:
    await page.goto(f"http://{host}:{stack.port}/")

    async with stack.worker(flows=flows):
        with anyio.fail_after(30):
            seen = await page.evaluate(SUBMIT_WATCH_CANCEL)

    assert seen["answers"] == [200, 200]
    order = ["PENDING", "RUNNING", "CANCELLING", "CANCELLED"]
    assert seen["statuses"] == [status for status in order if status in seen["statuses"]]
    assert {"RUNNING", "CANCELLED"} <= set(seen["statuses"])
    assert await stack.client.status(seen["runId"]) == "CANCELLED"
