import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pyoco_client.cli import main
from pyoco_testkit.environment import clean_environment, command_path

Output = pytest.CaptureFixture[str]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_own_script(shell: str, capsys: Output) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_PYOCO_CLIENT_COMPLETE={shell}_complete" in script


def test_an_unknown_shell_is_rejected_with_the_known_ones(capsys: Output) -> None:
    assert main(["completion", "tcsh"]) == 1
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err


def completions(shell: str, line: str, **environment: str) -> list[str]:
    """Return the completions of a shell after `line`."""
    words = line.split(" ")
    done = subprocess.run(
        [command_path("pyoco-client")],
        env=clean_environment(
            {
                "_PYOCO_CLIENT_COMPLETE": f"{shell}_complete",
                "COMP_WORDS": line,
                "COMP_CWORD": words[-1] if shell == "fish" else str(len(words) - 1),
                **environment,
            }
        ),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.strip().splitlines()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pyoco-client sub", ["plain,submit", "plain,submit-yaml"]),
        ("pyoco-client context sh", ["plain,show"]),
        ("pyoco-client watch --exit", ["plain,--exit-status"]),
        ("pyoco-client completion ", ["plain,bash", "plain,zsh", "plain,fish"]),
    ],
)
def test_commands_options_and_choices_are_completed(line: str, expected: list[str]) -> None:
    assert completions("bash", line) == expected


def test_zsh_and_fish_get_the_description_of_a_command() -> None:
    assert completions("zsh", "pyoco-client doc")[:2] == ["plain", "doctor"]
    assert completions("fish", "pyoco-client doc")[0].startswith("plain,doctor\t")


def test_names_of_contexts_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(tmp_path / "contexts.toml")
    monkeypatch.setenv("PYOCO_CONFIG", file)
    for name in ("team", "test", "local"):
        assert main(["context", "set", name, "--server", "http://127.0.0.1:8000"]) == 0
    found = completions("bash", "pyoco-client context use te", PYOCO_CONFIG=file)
    assert found == ["plain,team", "plain,test"]
    # An unreadable file gives no completions and no message: it would appear in the typed line.
    Path(file).write_text("[", encoding="utf-8")
    assert completions("bash", "pyoco-client context use te", PYOCO_CONFIG=file) == []


def test_bash_completes_with_the_printed_script(capsys: Output) -> None:
    main(["completion", "bash"])
    script = capsys.readouterr().out
    bash = shutil.which("bash")
    assert bash is not None
    typed = (
        f"{script}\nCOMP_WORDS=(pyoco-client canc); COMP_CWORD=1\n"
        '_pyoco_client_completion pyoco-client canc pyoco-client; echo "${COMPREPLY[@]}"\n'
    )
    path = f"{command_path('pyoco-client').parent}{os.pathsep}{os.defpath}"
    done = subprocess.run(
        [bash, "--norc", "-c", typed],
        env=clean_environment({"PATH": path}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("cancel\n", "")
