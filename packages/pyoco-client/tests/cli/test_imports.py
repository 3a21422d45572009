import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import click
import pytest

from pyoco_client.cli.root import client

# Slow imports that only commands with a request need.
HEAVY: Final = [
    *("anyio", "asyncio", "http.client", "httpcore", "httpx", "nats", "pydantic", "rich", "ssl"),
    *("webbrowser", "yaml", "pyoco_protocol", "pyoco_client.http_client"),
    *("pyoco_client._sync", "pyoco_client._async", "pyoco_client.models"),
]

BOUND_SEC: Final = 0.150
RUNS: Final = 7

# Runs command lines one after the other and prints the heavy modules that are imported so far.
PROGRAM: Final = """
import io, json, sys
from contextlib import redirect_stdout
from pyoco_client.cli import main
heavy, lines = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for line in lines:
    with redirect_stdout(io.StringIO()) as printed:
        code = main(line)
    found = [name for name in heavy if name in sys.modules]
    print(json.dumps([line, code, bool(printed.getvalue()), found]))
"""


def all_commands() -> list[list[str]]:
    found: list[list[str]] = []
    context = click.Context(client)

    def visit(group: click.Group, path: list[str]) -> None:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            found.append([*path, name])
            if isinstance(command, click.Group):
                visit(command, [*path, name])

    visit(client, [])
    return found


def test_help_and_version_import_nothing_heavy() -> None:
    lines = [["--version"], ["--help"], *([*path, "--help"] for path in all_commands())]
    assert ["context", "set", "--help"] in lines
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(HEAVY), json.dumps(lines)],
        capture_output=True,
        text=True,
        check=True,
    )
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    assert printed == [[line, 0, True, []] for line in lines]


def used_by(command: list[str], environment: dict[str, str]) -> float:
    """Return the processor time of one run, in seconds."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_command_starts_150_ms_after_the_interpreter(option: str, tmp_path: Path) -> None:
    # The first run compiles the modules, as installers do. Processor time is measured because other
    # tests run at the same time; a single thread that never waits takes no longer than that.
    environment = {"PATH": os.defpath, "PYTHONPYCACHEPREFIX": str(tmp_path), "LANG": "C.UTF-8"}
    command = [str(Path(sys.executable).with_name("pyoco-client")), option]
    bare = [sys.executable, "-c", "pass"]
    used_by(command, environment)
    interpreter = min(used_by(bare, environment) for _ in range(RUNS))
    whole = min(used_by(command, environment) for _ in range(RUNS))
    assert whole - interpreter < BOUND_SEC


def test_ctrl_c_during_the_import_exits_with_130_without_a_traceback() -> None:
    interrupted = """
import sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == "click":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from pyoco_client.cli import main
sys.exit(main(["list"]))
"""
    done = subprocess.run([sys.executable, "-c", interrupted], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
