"""The published command of an earlier release works with the current gateway.

Tests run the command with arguments and check its output and exit code.
"""

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import pytest

from pyoco_testkit.commands import Done, run
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack

NO_RUN: Final = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
WORKFLOW: Final = (Path(__file__).parent / "flows" / "greet.yaml").read_text(encoding="utf-8")


class Earlier:
    """The command of the earlier release, and a current server."""

    def __init__(self, command: Path, stack: Stack) -> None:
        self._command = command
        self.stack = stack

    async def __call__(self, *arguments: str) -> Done:
        return await run([self._command, "--server", self.stack.url, *arguments])


@pytest.fixture(scope="module")
async def earlier(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, flows: str
) -> AsyncGenerator[Earlier]:
    async with (
        Stack(tmp_path_factory.mktemp("earlier")) as stack,
        stack.worker(flows=flows, worker_id="worker-1", concurrency=2),
    ):
        yield Earlier(Path(pytestconfig.getoption("--earlier-client")), stack)


async def test_a_run_is_submitted_read_and_listed(earlier: Earlier) -> None:
    client = earlier.stack.client
    params = ["--params", '{"name": "a", "count": 1}', "--param", "name=世界"]
    submitted = await earlier("submit", "--flow-name", "greet", *params, "--tags", "x,y")
    assert submitted.code == 0, submitted.err
    assert submitted.json()["status"] == "PENDING"
    run_id = submitted.json()["run_id"]
    await client.wait(run_id)

    got = (await earlier("get", run_id, "--records")).json()
    assert (got["status"], got["params"]) == ("COMPLETED", {"name": "世界", "count": 1})
    assert got["tags"] == ["x", "y"]
    assert got["task_records"]["shout"]["output"] == "HELLO, 世界!"
    answer = (await earlier("tasks", run_id)).json()
    assert answer["tasks"] == {"greet": "SUCCEEDED", "shout": "SUCCEEDED"}

    filters = ["--status", "COMPLETED", "--flow", "greet", "--tag", "default", "--limit", "5"]
    listed = (await earlier("list", *filters, "--full")).json()
    assert [item["run_id"] for item in listed] == [run_id]
    assert listed[0]["params"] == {"name": "世界", "count": 1}
    table = await earlier("list", *filters, "--output", "table")
    assert re.search(rf"^{run_id} +COMPLETED +greet +default ", table.out, re.MULTILINE)


async def test_changes_are_listed_page_by_page(earlier: Earlier) -> None:
    client = earlier.stack.client
    runs = []
    for _ in range(3):
        runs.append((await earlier("submit", "--flow-name", "noop")).json()["run_id"])
        await client.wait(runs[-1])
    filters = ["--flow", "noop", "--limit", "1"]

    async def page(*position: str) -> dict[str, Any]:
        done = await earlier("list-vnext", *position, *filters)
        assert done.code == 0, done.err
        found: dict[str, Any] = done.json()
        return found

    # A script that reads until there is no cursor ends, with the newest run first.
    pages = [await page("--updated-after", "0")]
    while pages[-1]["next_cursor"] is not None:
        assert len(pages) < 9
        pages.append(await page("--cursor", pages[-1]["next_cursor"]))
    assert [item["run_id"] for each in pages for item in each["items"]] == runs[::-1]

    # Then it follows the first page.
    resume = pages[0]["resume_cursor"]
    assert (await page("--cursor", resume))["items"] == []
    run_id = (await earlier("submit", "--flow-name", "noop")).json()["run_id"]
    await client.wait(run_id)
    followed = await page("--cursor", resume)
    assert [item["run_id"] for item in followed["items"]] == [run_id]
    assert followed["resume_cursor"] != resume
    table = await earlier("list-vnext", "--updated-after", "0", *filters, "--output", "table")
    assert (table.code, run_id in table.out) == (0, True)


async def test_a_workflow_file_is_run(earlier: Earlier, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(WORKFLOW, encoding="utf-8")
    options = ["--workflow-file", str(file), "--flow-name", "from-a-file", "--tag", "default"]
    run_id = (await earlier("submit-yaml", *options)).json()["run_id"]
    assert (await earlier.stack.client.wait(run_id))["result"] == {"greet": "Hello, YAML!"}


async def test_a_run_without_changes_for_seconds_is_watched_to_its_end(earlier: Earlier) -> None:
    nap = ["--flow-name", "nap", "--param", "seconds=6"]
    run_id = (await earlier("submit", *nap)).json()["run_id"]
    seen = await earlier("watch", run_id, "--until-terminal", "--output", "status")
    assert (seen.code, seen.err) == (0, "")
    changes = re.findall(rf"^[\d.]+\tsnapshot\t([A-Z]+)\t{run_id}$", seen.out, re.MULTILINE)
    assert changes[-1] == "COMPLETED"
    whole = await earlier("watch", run_id, "--records", "--max-events", "1")
    assert whole.json()["data"]["snapshot"]["task_records"]["nap"]["output"] == "rested"


async def test_a_cancel_is_waited_for(earlier: Earlier) -> None:
    client = earlier.stack.client
    run_id = (await earlier("submit", "--flow-name", "nap", "--param", "seconds=600")).json()[
        "run_id"
    ]
    await eventually(lambda: client.status(run_id), "RUNNING")
    done = await earlier("cancel", "--run-id", run_id, "--wait", "--timeout-sec", "20")
    assert (done.code, done.json()["status"]) == (0, "CANCELLED")
    again = await earlier("cancel", "--run-id", run_id)
    assert (again.code, again.json()["status"]) == (0, "CANCELLED")


async def test_workers_and_metrics_are_read(earlier: Earlier) -> None:
    everyone = ["--scope", "all", "--include-hidden", "--limit", "5"]
    (worker,) = (await earlier("workers", *everyone)).json()
    assert (worker["worker_id"], worker["tags"]) == ("worker-1", ["default"])
    table = await earlier("workers", "--output", "table")
    assert (table.code, "worker-1" in table.out) == (0, True)
    page = await earlier("metrics")
    for family in ("pyoco_runs_total{", "pyoco_workers_alive_total ", "pyoco_dlq_messages_total "):
        assert f"\n{family}" in page.out


async def test_an_error_is_shown_with_the_text_of_the_gateway(earlier: Earlier) -> None:
    done = await earlier("get", NO_RUN)
    assert (done.code, done.out) == (1, "")
    assert "404" in done.err
    assert "ERR-PYOCO-0005" in done.err
