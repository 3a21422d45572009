"""The command line of `pyoco-server`: errors and exit codes."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyoco_gateway import __version__
from pyoco_gateway.commands.admin.command import run as run_admin
from pyoco_gateway.commands.server import run, up
from pyoco_testkit.documents import tables_in
from pyoco_testkit.environment import clean_environment

ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - to see it refused


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kept = clean_environment()
    for name in [name for name in os.environ if name not in kept]:  # noqa: TID251 - to empty it
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def busy_port() -> Iterator[int]:
    """Return a port in use."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "Missing command"),
        (["start"], "No such command 'start'"),
        (["up", "--prot", "1"], "No such option"),
        (["up", "--port", "http"], "'http' is not a valid integer range"),
        (["up", "--port", "70000"], "70000 is not in the range"),
        (["up", "--log-level", "LOUD"], "'LOUD' is not one of"),
        (["up", "--dashboard-lang", "fr"], "'fr' is not one of"),
        (["up", "extra"], "unexpected extra argument"),
        (["up", "--nats-url", " "], "--nats-url is empty"),
        (["up", "--nats-url", "http://x"], "--nats-url: must be an address like nats://host:4222"),
        (["up", "--with-nats", "--with-nats-bootstrap"], "cannot be combined"),
        (["up", "--with-nats", "--nats-url", "nats://x:1"], "--nats-url cannot be combined"),
        (["up", "--nats-port", "4223"], "need --with-nats"),
        (["up", "--data-dir", "d"], "need --with-nats"),
        (["up", "--host", ALL_ADDRESSES], "can be reached from other machines"),
        (["up", "--host", "::"], "can be reached from other machines"),
        (["up", "--host", "no such host"], "is not an address of this machine"),
        (["dev", "--host", ALL_ADDRESSES], "can be reached from other machines"),
        (["dev", "--concurrency", "0"], "0 is not in the range"),
        (["dev", "--nats-url", "nats://x:1"], "No such option"),
    ],
)
def test_a_wrong_argument_exits_with_1_and_an_example(
    arguments: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 1

    output = capsys.readouterr()
    assert output.out == ""
    first, example, *_ = output.err.splitlines()
    assert what in first
    assert "ERR-PYOCO-0018" in first
    command = arguments[0] if arguments[:1] in (["up"], ["dev"]) else "up"
    assert example.startswith(("  example: pyoco-server up", f"  example: pyoco-server {command}"))


@pytest.mark.parametrize(
    "arguments", [["--lang", "ja", "up", "--prot"], ["up", "--lang", "ja", "--port", "x"]]
)
def test_the_errors_of_a_command_can_be_japanese(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 1

    first, example, message, hint = capsys.readouterr().err.splitlines()
    assert "ERR-PYOCO-0018" in first
    assert message == "  CLI引数が不正です（入力形式を確認してください）"
    assert example.startswith("  example: pyoco-server up")
    assert "例に従って引数を修正してください" in hint


@pytest.mark.parametrize("command", [run, run_admin])
def test_a_japanese_locale_gives_japanese_errors(
    command: Callable[[list[str]], int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LANG", "ja_JP.UTF-8")
    monkeypatch.delenv("LC_ALL", raising=False)
    assert command(["--bogus"]) == 1
    assert "CLI引数が不正です（入力形式を確認してください）" in capsys.readouterr().err

    assert command(["--bogus", "--lang=en"]) == 1
    assert "The command-line arguments are not valid" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PYOCO_MAX_PARAMS_BYTES", "much"),
        ("PYOCO_NATS_URL", "localhost"),
        ("PYOCO_LOG_FORMAT", "xml"),
        ("PYOCO_DEFAULT_TAG", "a.b"),
        ("PYOCO_REPLICAS", "0"),
        ("PYOCO_DASHBOARD_LANG", "fr"),
    ],
)
def test_an_invalid_setting_exits_with_1_and_names_the_variable(
    variable: str,
    value: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An invalid value must not silently fall back to the default."""
    monkeypatch.setenv(variable, value)

    assert run(["up", "--port", "0"]) == 1

    output = capsys.readouterr().err
    assert f"{variable}:" in output
    assert f"example: {variable}=" in output
    assert "ERR-PYOCO-0108" in output


def test_an_invalid_setting_in_the_env_file_is_named_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".env").write_text("PYOCO_REPLICAS=many\n")

    assert run(["up", "--port", "0"]) == 1

    assert "PYOCO_REPLICAS: 'many' is not valid" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pepper", "reason"),
    [
        (None, "is not set"),
        ("fifteen-letters", "is too short: 15 characters"),
        ("a-long-random-secret", "is the public example from the documentation"),
    ],
)
def test_authentication_with_a_missing_or_weak_pepper_is_refused_at_start(
    pepper: str | None,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The gateway must not start without the authentication that the operator configured."""
    monkeypatch.setenv("PYOCO_HTTP_AUTH_MODE", "api_key")
    if pepper is not None:
        monkeypatch.setenv("PYOCO_AUTH_PEPPER", pepper)

    assert run(["up", "--port", "0"]) == 1

    output = capsys.readouterr()
    assert f"PYOCO_AUTH_PEPPER: {reason}" in output.err
    assert "example: PYOCO_AUTH_PEPPER=$(openssl rand -hex 32)" in output.err
    assert "ERR-PYOCO-0108" in output.err
    assert pepper is None or pepper not in output.out + output.err


@pytest.mark.parametrize("command", ["up", "dev"])
def test_a_busy_http_port_is_named_with_its_option(
    command: str, busy_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--port", str(busy_port)]) == 1

    output = capsys.readouterr().err
    assert f"port {busy_port} is in use" in output
    assert "with --port," in output


@pytest.mark.parametrize("arguments", [["up", "--with-nats"], ["dev"]])
def test_a_busy_nats_port_is_named_with_its_option(
    arguments: list[str], busy_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--port", "0", "--nats-port", str(busy_port)]) == 1

    output = capsys.readouterr().err
    assert f"port {busy_port} is in use" in output
    assert "with --nats-port," in output


def test_help_and_version_exit_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "pyoco-server" in capsys.readouterr().out
    assert run(["up", "--help"]) == 0
    shown = capsys.readouterr().out
    for flag in ("--host", "--port", "--log-level", "--nats-url", "--dashboard-lang"):
        assert flag in shown
    assert run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


def test_running_the_module_is_the_same_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyoco_gateway", "--version"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, f"pyoco-server, version {__version__}\n")


def test_the_readme_names_every_option_of_up() -> None:
    readme = Path(__file__).parents[2] / "README.md"
    named = re.findall(r"--[a-z-]+", " ".join(row["option"] for row in tables_in(readme)["Run it"]))

    known = [option for parameter in up.params for option in parameter.opts]
    assert sorted(named) == sorted(known)
