"""The API is what `/openapi.json` says it is, whatever it is sent."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from pyoco_testkit.environment import clean_environment, command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack

HERE: Final = Path(__file__).parent
SEED: Final = 20261117
LETTERS: Final = 10
EXAMPLES: Final = 20
# Streams take a second to end, and there would be a hundred of them.
STREAM_EXAMPLES: Final = 5
FIRST_EVENT_ONLY: Final = "max-stream-events = 1\n"


@pytest.mark.timeout(180)
async def test_no_answer_is_a_crash_or_comes_as_a_surprise(
    stack: Stack, flows: str, tmp_path: Path
) -> None:
    """All checks of schemathesis, over every route that is described.

    Of streams the first event is read, and meanwhile some streams are read to their end.
    """
    config = tmp_path / "first-event.toml"
    config.write_text(FIRST_EVENT_ONLY, encoding="utf-8")
    async with stack.worker(flows=flows, concurrency=2):
        # Something to be found: runs that are over, what they printed, and dead letters.
        for _ in range(LETTERS):
            await stack.client.submit("no-such-flow")
            await stack.client.submit("chatter", params={"lines": 3})
        await eventually(lambda: stack.messages("PYOCO_DLQ"), LETTERS)
        description = (await stack.client.http.get("/openapi.json")).json()
        tried: list[subprocess.CompletedProcess[bytes]] = []

        async def try_out(*options: str, config: Path | None = None) -> None:
            tried.append(await schemathesis(stack.url, *options, cwd=tmp_path, config=config))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                try_out,
                *(word for path in streams(description) for word in ("--include-path", path)),
                *("--phases", "fuzzing", "--mode", "positive"),
                *("--max-examples", str(STREAM_EXAMPLES)),
            )
            await try_out("--max-examples", str(EXAMPLES), config=config)
    reports = "\n".join(each.stdout.decode(errors="replace") for each in tried)
    assert [each.returncode for each in tried] == [0, 0], reports
    # The crash of a request is logged, also where it was answered in time.
    assert "request crashed" not in stack.gateway.log(), reports


async def schemathesis(
    url: str, *options: str, cwd: Path, config: Path | None
) -> subprocess.CompletedProcess[bytes]:
    """Return how it went: all checks over what is described at the URL."""
    return await anyio.run_process(
        [
            str(command_path("schemathesis")),
            *(() if config is None else ("--config-file", str(config))),
            *("run", f"{url}/openapi.json", "--checks", "all"),
            *("--continue-on-failure", "--no-color", "--seed", str(SEED), *options),
        ],
        cwd=cwd,
        env={
            **clean_environment(),
            "PYTHONPATH": str(HERE),
            "SCHEMATHESIS_HOOKS": "fuzzing_hooks",
        },
        stderr=subprocess.STDOUT,
        check=False,
    )


def streams(description: Mapping[str, Any]) -> list[str]:
    """Return the paths that are described to answer with events."""
    paths = description["paths"].items()
    return [path for path, operations in paths if "text/event-stream" in json.dumps(operations)]
