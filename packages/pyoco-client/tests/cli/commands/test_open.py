import sys
from pathlib import Path

import pytest

from pyoco_client.cli import main

Output = pytest.CaptureFixture[str]
SERVER = "http://user:canary@127.0.0.1:8000/pyoco"
PAGE = "http://127.0.0.1:8000/pyoco/"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYOCO_CONFIG", str(tmp_path / "contexts.toml"))
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    # The module looks for browsers once, at its first use.
    monkeypatch.delitem(sys.modules, "webbrowser", raising=False)


def browser_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a fake browser; return the file to which it writes the address."""
    program, opened = folder / "browser", folder / "opened"
    program.write_text(f'#!/bin/sh\necho "$1" > {opened}\n', encoding="utf-8")
    program.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{program} %s")
    return opened


def test_the_page_is_opened_in_the_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    opened = browser_in(tmp_path, monkeypatch)
    assert main(["--server", SERVER, "open"]) == 0
    assert opened.read_text(encoding="utf-8") == f"{PAGE}\n"
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"opened {PAGE} in the browser\n")


def test_the_address_is_printed_without_a_browser(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["--server", SERVER, "open"]) == 0
    assert capsys.readouterr().out == f"{PAGE}\n"


def test_the_address_is_printed_with_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    opened = browser_in(tmp_path, monkeypatch)
    assert main(["--server", SERVER, "open", "--print"]) == 0
    assert capsys.readouterr().out == f"{PAGE}\n"
    assert not opened.exists()


def test_a_text_browser_does_not_take_over_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    for name in ("www-browser", "lynx", "w3m", "links", "elinks"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TERM", "xterm")
    assert main(["--server", SERVER, "open"]) == 0
    assert capsys.readouterr().out == f"{PAGE}\n"
