"""A real process that hides its environment."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyoco_protocol.process_secrets import without_logins

# Prints what the program finds, and what the system shows of its process.
_PROGRAM = """
import ctypes, json, os, subprocess, sys
from pyoco_protocol.process_secrets import hide_environment
hide_environment()
linux = sys.platform == "linux"
libc = ctypes.CDLL(None)
dumpable = libc.prctl(3, 0, 0, 0, 0) if linux else 0
if linux:
    # Without this, only root could read the files below.
    libc.prctl(4, 1, 0, 0, 0)
    texts = [open(f"/proc/self/{name}", "rb").read() for name in ("cmdline", "environ")]
    shown = b" ".join(texts).replace(b"\\0", b" ").decode()
else:
    ps = ["/bin/ps", "eww", "-o", "command=", "-p", str(os.getpid())]
    shown = subprocess.run(ps, capture_output=True, text=True, env={}).stdout
print(json.dumps({
    "pid": os.getpid(),
    "arguments": sys.argv[1:],
    "variables": dict(os.environ),
    "shown": shown,
    "dumpable": dumpable,
    "descriptors": len(os.listdir("/dev/fd")),
}))
"""


def found_by(tmp_path: Path, *arguments: str, **variables: str) -> dict[str, Any]:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM, encoding="utf-8")
    command = [sys.executable, str(program), *arguments]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as process:
        found: dict[str, Any] = json.loads(process.communicate()[0])
    assert process.returncode == 0
    assert found["pid"] == process.pid
    return found


def test_a_program_finds_its_hidden_environment_and_arguments(tmp_path: Path) -> None:
    large = "x" * 100_000
    found = found_by(
        tmp_path, "--nats-url", "nats://me:secret@host", SECRET="s3cret", LANG="C", BIG=large
    )
    assert found["arguments"] == ["--nats-url", "nats://me:secret@host"]
    assert found["variables"]["SECRET"] == "s3cret"
    assert found["variables"]["BIG"] == large
    assert found["variables"]["LANG"] == "C"
    assert [name for name in found["variables"] if "HIDDEN" in name] == []


def test_the_system_shows_neither_environment_nor_logins(tmp_path: Path) -> None:
    found = found_by(
        tmp_path, "--nats-url", "nats://me:secret@host", PYOCO_AUTH_PEPPER="a-secret", LANG="C"
    )
    assert "program.py --nats-url nats://***@host" in found["shown"]
    assert "secret" not in found["shown"]
    # Other processes of the same user cannot read its memory.
    assert found["dumpable"] == 0


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    bare = subprocess.run(
        [sys.executable, "-c", "import os; print(len(os.listdir('/dev/fd')))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found_by(tmp_path)["descriptors"] == int(bare.stdout)


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("nats://me:secret@host:4222", "nats://***@host:4222"),
        ("nats://token@a,tls://b:c@d", "nats://***@a,tls://***@d"),
        ("--nats-url=nats://me:secret@host", "--nats-url=nats://***@host"),
        ("nats://me:p@ss@host", "nats://***@host"),
        ("nats://me:a,b@host", "nats://***@host"),
        ("nats://host:4222", "nats://host:4222"),
        ("me@example.com", "me@example.com"),
    ],
)
def test_logins_in_urls_are_replaced(argument: str, shown: str) -> None:
    assert without_logins(argument) == shown
