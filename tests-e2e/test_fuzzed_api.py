"""The API conforms to `/openapi.json` for generated requests."""

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
EXAMPLES: Final = 12
API_KEY_EXAMPLES: Final = 6
# A stream takes a second to end, so there are fewer examples.
STREAM_EXAMPLES: Final = 5
ALL_EVENTS: Final = 1000


@pytest.mark.timeout(300)
async def test_every_answer_conforms_to_the_description(
    stack: Stack, flows: str, tmp_path: Path
) -> None:
    """Runs all checks of schemathesis on all routes.

    It reads the first event of each stream; a second process reads some streams to their end.
    """
    reports: list[str] = []
    codes: list[int] = []

    async def run_checks(options: Sequence[str], *, stream_events: int) -> None:
        config = tmp_path / f"events-{stream_events}.toml"
        config.write_text(f"max-stream-events = {stream_events}\n", encoding="utf-8")
        result = await schemathesis(stack.url, config, options)
        reports.append(result.stdout.decode(errors="replace"))
        codes.append(result.returncode)

    async with stack.worker(flows=flows, concurrency=2):
        # Ended runs with output, and dead letters, so that requests find something.
        for _ in range(LETTERS):
            await stack.client.submit("no-such-flow")
            await stack.client.submit("chatter", params={"lines": 3})
        await eventually(lambda: stack.message_count("PYOCO_DLQ"), LETTERS)
        description = (await stack.client.http.get("/openapi.json")).json()
        stream_options = [
            *(word for path in streams(description) for word in ("--include-path", path)),
            *("--phases", "fuzzing", "--mode", "positive"),
            *("--max-examples", str(STREAM_EXAMPLES)),
        ]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(run_checks, stream_options, stream_events=ALL_EVENTS))
            await run_checks(["--max-examples", str(EXAMPLES)], stream_events=1)
    report = "\n".join(reports)
    assert codes == [0, 0], report
    # An exception in a handler is logged even if the answer was already sent.
    assert "request crashed" not in stack.gateway.log(), report


@pytest.mark.timeout(180)
async def test_every_answer_conforms_to_the_description_with_keys_required(
    flows: str, tmp_path: Path
) -> None:
    """Uses fewer examples, because the handling of a body does not depend on the caller."""
    # schemathesis also sends missing and wrong keys, more often than the limit allows.
    async with ApiKeyStack(env={"PYOCO_AUTH_FAILURES_PER_MIN": "0"}) as stack:
        config = tmp_path / "keyed.toml"
        config.write_text("max-stream-events = 1\n", encoding="utf-8")
        async with stack.worker(flows=flows):
            for _ in range(LETTERS):
                await stack.client.submit("no-such-flow")
            await eventually(lambda: stack.message_count("PYOCO_DLQ"), LETTERS)
            key = stack.client.http.headers["X-API-Key"]
            options = ["--max-examples", str(API_KEY_EXAMPLES), "--phases", "fuzzing"]
            options += ["--header", f"X-API-Key: {key}"]
            result = await schemathesis(stack.url, config, options, key=key)
        report = result.stdout.decode(errors="replace")
        assert result.returncode == 0, report
        assert "request crashed" not in stack.gateway.log(), report


async def schemathesis(
    url: str, config: Path, options: Sequence[str], *, key: str = ""
) -> subprocess.CompletedProcess[bytes]:
    """Run all checks of schemathesis on the API at `url`."""
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
    """Return the paths that answer with an event stream."""
    paths = description["paths"].items()
    return [path for path, operations in paths if "text/event-stream" in json.dumps(operations)]
