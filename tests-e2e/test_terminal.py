"""The command line on a terminal, against a complete server."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from pyoco_testkit.environment import clean_environment, command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack
from pyoco_testkit.terminal_session import TerminalSession

JAPANESE: Final = "日次売上レポートの作成と配信"
ID: Final = r"[0-9a-f-]{36}"


@pytest.fixture
def terminal(stack: Stack, tmp_path: Path) -> Callable[..., TerminalSession]:
    """Return a function that runs the command on its own terminal, with the stack as its server."""

    def opened(*words: str, columns: int = 80, **options: Any) -> TerminalSession:
        environment = {"PYOCO_SERVER": stack.url, "PYOCO_CONFIG": str(tmp_path / "contexts.toml")}
        command = [str(command_path("pyoco-client")), *words]
        return TerminalSession(command, columns=columns, env=environment, **options)

    return opened


def still(rows: list[str]) -> list[str]:
    """Return rows with the spinner and the durations replaced."""
    rows = [re.sub("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "*", row) for row in rows]
    return [re.sub(r" +[0-9.]+s$", " ?s", row) for row in rows]


@pytest.mark.parametrize(
    ("columns", "name"),
    # The room for the name depends on the length of the duration.
    [(80, JAPANESE), (40, r"日次売上レ\w*\.\.")],
    ids=["80 columns", "40 columns"],
)
async def test_a_run_is_followed_from_its_submission_to_its_result(
    stack: Stack,
    flows: str,
    tmp_path: Path,
    terminal: Callable[..., TerminalSession],
    *,
    columns: int,
    name: str,
) -> None:
    bar = min(40, columns - 9)
    go = tmp_path / "go"
    words = ["submit", "--flow-name", JAPANESE, "--param", f"until={go}", "--follow"]
    async with stack.worker(flows=flows), terminal(*words, columns=columns) as session:
        await session.shows("talk  RUNNING", 30)
        running = still(session.screen.rows)
        assert re.fullmatch(rf"\* {name}  RUNNING \?s", running[0])
        assert re.fullmatch(f"  {ID}", running[1])
        # The first task has a duration only if a snapshot showed it running.
        assert running[2].removesuffix(" ?s") == "  ✓ greet SUCCEEDED"
        assert running[3:5] == ["  * talk  RUNNING ?s", "  - shout PENDING"]
        assert running[5:] == [f"  [{'=' * (bar // 3)}{' ' * (bar - bar // 3)}] 1/3"]
        assert not session.screen.is_cursor_visible
        await anyio.Path(go).touch()
        assert await session.ended(30) == 0
        ended = still(session.screen.rows)
        assert re.fullmatch(rf"✓ {name}  COMPLETED \?s", ended[0])
        assert ended[2:6] == [
            "  ✓ greet SUCCEEDED ?s",
            "  ✓ talk  SUCCEEDED ?s",
            "  ✓ shout SUCCEEDED ?s",
            f"  [{'=' * bar}] 3/3",
        ]
        assert ended[6:] == ['result: {"shout": "HELLO, WORLD!"}']
        assert session.is_as_found


async def test_ctrl_c_in_a_watch_leaves_the_run_and_the_terminal_unchanged(
    stack: Stack, flows: str, tmp_path: Path, terminal: Callable[..., TerminalSession]
) -> None:
    go = tmp_path / "go"
    async with stack.worker(flows=flows):
        run_id = await stack.client.submit("talk", params={"until": str(go)})
        async with terminal("watch", run_id, before="$ watch\n") as session:
            await session.shows("talk  RUNNING", 30)
            session.resize(40, 12)
            session.type("\x03")
            assert await session.ended() == 130
            assert session.screen.rows[0] == "$ watch"
            assert session.screen.rows[-1] == "Stopped watching; the run continues."
            assert session.is_as_found
        assert await stack.client.status(run_id) == "RUNNING"
        await anyio.Path(go).touch()
        assert (await stack.client.wait(run_id))["status"] == "COMPLETED"


async def test_a_failure_is_shown_with_its_reason(
    stack: Stack, flows: str, terminal: Callable[..., TerminalSession]
) -> None:
    async with stack.worker(flows=flows):
        words = ["submit", "--flow-name", "fail", "--follow"]
        async with terminal(*words, columns=120) as session:
            assert await session.ended(30) == 1
            shown = "\n".join(session.screen.rows)
    assert "✗ fail  FAILED" in shown
    assert "the shop is closed" in shown


def examined(stack: Stack, folder: Path) -> tuple[int, dict[str, str], str]:
    """Return the exit code of `doctor`, the level of each check, and the output."""
    done = subprocess.run(
        [command_path("pyoco-client"), "--server", stack.url, "doctor", "--output", "json"],
        env=clean_environment({"PYOCO_CONFIG": str(folder / "contexts.toml")}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    checks = json.loads(done.stdout)["checks"]
    return done.returncode, {each["check"]: each["level"] for each in checks}, done.stdout


async def test_doctor_reports_which_parts_are_up_and_down(
    stack: Stack, flows: str, tmp_path: Path
) -> None:
    async def levels() -> tuple[int, dict[str, str], str]:
        return await anyio.to_thread.run_sync(examined, stack, tmp_path)

    async with stack.worker(flows=flows):
        code, seen, printed = await eventually(
            levels, lambda answer: answer[1].get("workers") == "ok", 30
        )
        assert (code, set(seen.values())) == (0, {"ok"})
        assert "by tag: default 1" in printed
    await stack.client.submit("noop", tag="gpu")
    await eventually(
        levels, lambda answer: "no worker takes it" in answer[2] and answer[0] == 0, 30
    )
    await stack.nats.stop()
    code, seen, _ = await eventually(
        levels, lambda answer: answer[1].get("broker") == "failure", 30
    )
    assert (code, seen["gateway"]) == (1, "ok")
    await stack.gateway.stop()
    code, seen, _ = await levels()
    assert (code, seen) == (1, {"gateway": "failure"})
