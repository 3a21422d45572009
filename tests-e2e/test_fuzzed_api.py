"""The API is what `/openapi.json` says it is, whatever it is sent."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from pyoco_testkit.api_key_stack import ApiKeyStack
from pyoco_testkit.environment import clean_environment, command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack

HERE: Final = Path(__file__).parent
SEED: Final = 20261117
LETTERS: Final = 10
EXAMPLES: Final = 20
KEYED_EXAMPLES: Final = 10
# Streams take a second to end, and there would be a hundred of them.
STREAM_EXAMPLES: Final = 5
TO_THE_END: Final = 1000


@pytest.mark.timeout(180)
async def test_no_answer_is_a_crash_or_comes_as_a_surprise(
    stack: Stack, flows: str, tmp_path: Path
) -> None:
    """All checks of schemathesis, over every route that is described.

    Of streams the first event is read, and meanwhile some streams are read to their end.
    """
    reports: list[str] = []
    codes: list[int] = []

    async def try_out(options: Sequence[str], *, stream_events: int) -> None:
        config = tmp_path / f"events-{stream_events}.toml"
        config.write_text(f"max-stream-events = {stream_events}\n", encoding="utf-8")
        tried = await schemathesis(stack.url, config, options)
        reports.append(tried.stdout.decode(errors="replace"))
        codes.append(tried.returncode)

    async with stack.worker(flows=flows, concurrency=2):
        # Something to be found: runs that are over, what they printed, and dead letters.
        for _ in range(LETTERS):
            await stack.client.submit("no-such-flow")
            await stack.client.submit("chatter", params={"lines": 3})
        await eventually(lambda: stack.message_count("PYOCO_DLQ"), LETTERS)
        description = (await stack.client.http.get("/openapi.json")).json()
        of_streams = [
            *(word for path in streams(description) for word in ("--include-path", path)),
            *("--phases", "fuzzing", "--mode", "positive"),
            *("--max-examples", str(STREAM_EXAMPLES)),
        ]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(try_out, of_streams, stream_events=TO_THE_END))
            await try_out(["--max-examples", str(EXAMPLES)], stream_events=1)
    report = "\n".join(reports)
    assert codes == [0, 0], report
    # The crash of a request is logged, also where it was answered in time.
    assert "request crashed" not in stack.gateway.log(), report


@pytest.mark.timeout(180)
async def test_nor_is_any_where_keys_are_asked_for(flows: str, tmp_path: Path) -> None:
    """Fewer examples: what a route does with a body does not depend on who sent it."""
    # Each operation is tried without a key and with wrong ones too, far more often than anybody is.
    async with ApiKeyStack(env={"PYOCO_AUTH_FAILURES_PER_MIN": "0"}) as stack:
        config = tmp_path / "keyed.toml"
        config.write_text("max-stream-events = 1\n", encoding="utf-8")
        async with stack.worker(flows=flows):
            for _ in range(LETTERS):
                await stack.client.submit("no-such-flow")
            await eventually(lambda: stack.message_count("PYOCO_DLQ"), LETTERS)
            key = stack.client.http.headers["X-API-Key"]
            options = ["--max-examples", str(KEYED_EXAMPLES), "--phases", "fuzzing"]
            options += ["--header", f"X-API-Key: {key}"]
            tried = await schemathesis(stack.url, config, options, key=key)
        report = tried.stdout.decode(errors="replace")
        assert tried.returncode == 0, report
        assert "request crashed" not in stack.gateway.log(), report


async def schemathesis(
    url: str, config: Path, options: Sequence[str], *, key: str = ""
) -> subprocess.CompletedProcess[bytes]:
    """Return how it went: all checks over what is described at the URL."""
    return await anyio.run_process(
        [
            *(str(command_path("schemathesis")), "--config-file", str(config)),
            *("run", f"{url}/openapi.json", "--checks", "all"),
            *("--continue-on-failure", "--no-color", "--seed", str(SEED), *options),
        ],
        cwd=config.parent,
        env={
            **clean_environment(),
            "PYTHONPATH": str(HERE),
            "SCHEMATHESIS_HOOKS": "fuzzing_hooks",
            "FUZZING_API_KEY": key,
        },
        stderr=subprocess.STDOUT,
        check=False,
    )


def streams(description: Mapping[str, Any]) -> list[str]:
    """Return the paths that are described to answer with events."""
    paths = description["paths"].items()
    return [path for path, operations in paths if "text/event-stream" in json.dumps(operations)]
