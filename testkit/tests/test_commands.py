import sys
from pathlib import Path

import pytest

from pyoco_testkit.commands import run


async def test_a_command_returns_its_exit_code_and_both_streams(tmp_path: Path) -> None:
    script = (
        "import os, sys; print(sys.stdin.read()); print(os.getcwd(), file=sys.stderr); sys.exit(3)"
    )
    done = await run([sys.executable, "-c", script], stdin='{"名": 1}', directory=tmp_path)
    assert (done.code, done.json(), done.err) == (3, {"名": 1}, f"{tmp_path}\n")


async def test_a_command_does_not_inherit_settings_of_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYOCO_SERVER", "http://nowhere.example")
    script = "import os; print(os.environ.get('PYOCO_SERVER'), os.environ['PYOCO_LANG'])"
    done = await run([sys.executable, "-c", script], env={"PYOCO_LANG": "ja"})
    assert done.out == "None ja\n"
