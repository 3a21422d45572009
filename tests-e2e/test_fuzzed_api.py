"""The API is what `/openapi.json` says it is, whatever it is sent."""

import subprocess
from pathlib import Path
from typing import Final

import anyio
import pytest

from pyoco_testkit.environment import clean_environment, command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack

HERE: Final = Path(__file__).parent
EXAMPLES: Final = 20
SEED: Final = 20261117
# Paths that are left out, each with its reason.
LEFT_OUT: Final[dict[str, str]] = {}


@pytest.mark.timeout(180)
async def test_no_answer_is_a_crash_or_comes_as_a_surprise(
    stack: Stack, flows: str, tmp_path: Path
) -> None:
    """All checks of schemathesis, over every route that is described."""
    async with stack.worker(flows=flows, concurrency=2):
        # Something to be found: runs that are over, and dead letters.
        for _ in range(20):
            await stack.client.submit("no-such-flow")
        await eventually(lambda: stack.messages("PYOCO_DLQ"), 20)
        tried = await anyio.run_process(
            [
                *(str(command_path("schemathesis")), "run", f"{stack.url}/openapi.json"),
                *("--checks", "all", "--continue-on-failure", "--no-color"),
                *("--max-examples", str(EXAMPLES), "--seed", str(SEED)),
                *(word for path in LEFT_OUT for word in ("--exclude-path", path)),
            ],
            cwd=tmp_path,
            env={
                **clean_environment(),
                "PYTHONPATH": str(HERE),
                "SCHEMATHESIS_HOOKS": "fuzzing_hooks",
            },
            stderr=subprocess.STDOUT,
            check=False,
        )
    report = tried.stdout.decode(errors="replace")
    assert tried.returncode == 0, report
    # The crash of a request is logged, also where it was answered in time.
    assert "request crashed" not in stack.gateway.log(), report
