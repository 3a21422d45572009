"""The effects of the plugin on a pytest run in another process."""

import subprocess
import sys
from pathlib import Path


def pytest_output(directory: Path, test: str, *arguments: str) -> str:
    """Return the output of pytest for one test module."""
    (directory / "test_inner.py").write_text(test, encoding="utf-8")
    plugins = ("xdist", "anyio", "pyoco_testkit.pytest_plugin", "no:cacheprovider")
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", *(f"-p{name}" for name in plugins)),
            *(*arguments, "test_inner.py"),
        ],
        cwd=directory,
        # Other plugins of the environment would only take time.
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def test_an_async_test_runs_without_a_marker(tmp_path: Path) -> None:
    printed = pytest_output(tmp_path, "async def test_it():\n    assert 1 == 2\n")
    assert "assert 1 == 2" in printed
    assert "1 failed" in printed
    assert "test_inner.py::test_it - " in printed, "one test, not one for each event loop"


FAILING = """
async def test_it(nats_server):
    assert False, "on purpose"
"""

FAILING_OUTSIDE = """
from pyoco_testkit.nats_server import NatsServer

async def test_it():
    async with NatsServer(config="unknown_word: 1"):
        pass
"""


def test_the_report_of_a_failing_test_contains_the_logs_of_its_processes(tmp_path: Path) -> None:
    printed = pytest_output(tmp_path, FAILING)
    assert "log of nats-server" in printed
    assert "Server is ready" in printed


def test_the_report_contains_a_log_whose_directory_was_removed(tmp_path: Path) -> None:
    printed = pytest_output(tmp_path, FAILING_OUTSIDE)
    assert "- log of nats-server -" in printed


def test_the_report_of_a_passing_test_contains_no_logs(tmp_path: Path) -> None:
    printed = pytest_output(tmp_path, "async def test_it(nats_server):\n    pass\n")
    assert "1 passed" in printed
    assert "log of" not in printed


def test_a_hidden_module_cannot_be_imported(tmp_path: Path) -> None:
    importing = "def test_it():\n    import {}\n"
    printed = pytest_output(tmp_path, importing.format("nats.aio.client"), "--without", "nats")
    assert "No module named 'nats" in printed
    assert "1 failed" in printed
    printed = pytest_output(tmp_path, importing.format("json"), "--without", "nats")
    assert "1 passed" in printed


LOGS_A_SURROGATE = """
import logging

def test_it():
    logging.getLogger("odd").warning("\\ud800")
"""


def test_a_test_in_an_xdist_worker_may_log_text_that_is_not_utf_8(tmp_path: Path) -> None:
    printed = pytest_output(tmp_path, LOGS_A_SURROGATE, "-n", "2")
    assert "1 passed" in printed
