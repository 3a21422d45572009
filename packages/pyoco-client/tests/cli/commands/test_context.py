import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from pyoco_client import configuration
from pyoco_client.cli import main
from pyoco_protocol.settings import unknown_variables
from pyoco_testkit.recorded_gateway import RecordedGateway
from pyoco_testkit.terminal_session import TerminalSession

KEY = "canary-5f0e"
LOCAL = "http://127.0.0.1:8000"
TEAM = "https://pyoco.example.com"

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "config" / "contexts.toml"
    monkeypatch.setenv("PYOCO_CONFIG", str(path))
    return path


def context(*words: str) -> int:
    return main(["context", *words])


def kept(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def listed(capsys: Output) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert context("list") == 0
    records: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return records


def test_a_stored_gateway_is_used(gateway: RecordedGateway, file: Path, capsys: Output) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    assert context("set", "here", "--server", gateway.url, "--api-key", KEY) == 0
    assert main(["health"]) == 0
    assert gateway.requests[-1].headers["X-API-Key"] == KEY
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    printed = capsys.readouterr()
    assert KEY not in printed.out + printed.err


def test_keys_are_never_shown(capsys: Output) -> None:
    context("set", "team", "--server", TEAM.replace("//", f"//user:{KEY}@"), "--api-key", KEY)
    for words in (["list"], ["show"], ["show", "team"]):
        for form in ("table", "wide", "json", "jsonl", "name"):
            assert context(*words, "--output", form) == 0
    printed = capsys.readouterr()
    assert KEY not in printed.out + printed.err
    assert printed.out.count("********") == 3 * 4


def test_the_first_context_is_current_until_another_is_selected(capsys: Output) -> None:
    context("set", "local", "--server", LOCAL)
    context("set", "team", "--server", TEAM)
    assert "pyoco-client context use team" in capsys.readouterr().err
    assert [(each["name"], each["current"]) for each in listed(capsys)] == [
        ("local", True),
        ("team", False),
    ]
    assert context("use", "team") == 0
    assert context("show") == 0
    assert json.loads(capsys.readouterr().out)["server"] == TEAM
    assert context("delete", "team") == 0
    assert [(each["name"], each["current"]) for each in listed(capsys)] == [("local", False)]


def test_values_without_an_option_stay_unchanged(file: Path) -> None:
    context("set", "team", "--server", TEAM, "--api-key", KEY, "--api-key-header", "X-Key")
    context("set", "team", "--lang", "ja")
    text = kept(file)
    assert f'api_key = "{KEY}"' in text
    assert 'api_key_header = "X-Key"' in text
    assert 'lang = "ja"' in text
    context("set", "team", "--no-api-key")
    assert KEY not in kept(file)


def test_a_new_server_deletes_the_stored_key(file: Path, capsys: Output) -> None:
    context("set", "team", "--server", TEAM, "--api-key", KEY)
    context("set", "team", "--server", f"{TEAM}/")
    assert KEY in kept(file)
    context("set", "team", "--server", LOCAL)
    assert KEY not in kept(file)
    assert "is deleted" in capsys.readouterr().err


async def test_a_typed_key_is_not_shown(file: Path) -> None:
    command = [sys.executable, "-m", "pyoco_client", "context", "set", "team", "--server", TEAM]
    environment = {"PYOCO_CONFIG": str(file)}
    async with TerminalSession([*command, "--api-key-stdin"], env=environment) as session:
        await session.shows("API key:")
        session.type(f"{KEY}\r")
        assert await session.ended() == 0
        assert KEY not in "\n".join(session.screen.rows)
        assert session.is_as_found
    assert f'api_key = "{KEY}"' in kept(file)


def test_a_key_is_read_from_a_pipe(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n", encoding="utf-8")
    with (tmp_path / "key").open(encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert context("set", "team", "--server", TEAM, "--api-key-stdin") == 0
    assert f'api_key = "{KEY}"' in kept(file)


def test_a_missing_file_is_not_an_error(file: Path, capsys: Output) -> None:
    assert context("list") == 0
    printed = capsys.readouterr()
    assert (printed.out, "pyoco-client context set" in printed.err) == ("[]\n", True)
    assert not file.exists()


def test_a_file_that_others_can_read_causes_a_warning(file: Path, capsys: Output) -> None:
    context("set", "local", "--server", LOCAL)
    capsys.readouterr()
    context("list")
    assert "chmod" not in capsys.readouterr().err
    file.chmod(0o644)
    context("list")
    assert f"chmod 600 {file}" in capsys.readouterr().err
    # Every change restricts the file again.
    context("set", "local", "--lang", "en")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_use_notes_variables_that_take_precedence(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    context("set", "local", "--server", LOCAL)
    monkeypatch.setenv("PYOCO_SERVER", TEAM)
    context("use", "local")
    assert "PYOCO_SERVER is set and takes precedence" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "what", "example"),
    [
        (["set", "a"], "needs a --server", "context set a --server http"),
        (["set", "a b", "--server", LOCAL], "cannot be the name", "context set local"),
        (["set", "a", "--server", "nowhere"], "nowhere", "--server http://127.0.0.1:8000"),
        (["set", "a", "--server", LOCAL, "--api-key", "a b"], "printable", "context set"),
        (["set", "a", "--server", LOCAL, "--api-key-header", "a b"], "'a b'", "context set"),
        (["set", "a", "--server", LOCAL, "--lang", "!"], "language", "context set"),
        (["set", "a", "--api-key", "x", "--no-api-key"], "exclude each other", "context set"),
        (["use", "nosuch"], "there are: none", "context use"),
        (["delete", "nosuch"], "there are: none", "context delete"),
        (["show"], "has no current context", "context set"),
        (["show", "nosuch"], "there are: none", "context show"),
        (["use"], "NAME", "context use"),
        (["lst"], "list", "context list"),
    ],
)
def test_a_wrong_argument_is_answered_with_a_correct_command(
    words: list[str], what: str, example: str, file: Path, capsys: Output
) -> None:
    assert context(*words) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert what in printed.err
    assert example in printed.err.partition("example:")[2].splitlines()[0]
    assert not file.exists()


def test_servers_know_the_variables_of_the_client() -> None:
    named = {
        value
        for name, value in vars(configuration).items()
        if name.endswith("_VARIABLE") and isinstance(value, str)
    }
    assert len(named) >= 6
    # Otherwise each gateway and worker would warn about these variables.
    assert unknown_variables(dict.fromkeys(named, "x")) == []


def test_an_invalid_file_is_reported_and_not_changed(file: Path, capsys: Output) -> None:
    file.parent.mkdir()
    file.write_text("current = [", encoding="utf-8")
    for words in (["list"], ["set", "a", "--server", LOCAL], ["use", "a"]):
        assert context(*words) == 1
        assert f"{file} is not TOML" in capsys.readouterr().err
    assert kept(file) == "current = ["
