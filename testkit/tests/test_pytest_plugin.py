"""What the plugin does to a test run, seen from outside: a pytest of its own."""

import subprocess
import sys
from pathlib import Path


def pytest_output(directory: Path, test: str, *arguments: str) -> str:
    """Return what a pytest over one test file prints."""
    (directory / "test_inner.py").write_text(test, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        [*command, "test_inner.py"], cwd=directory, capture_output=True, text=True, check=False
    ).stdout


def test_an_async_test_needs_no_marker_and_really_runs(tmp_path: Path) -> None:
    printed = pytest_output(tmp_path, "async def test_it():\n    assert 1 == 2\n")
    assert "assert 1 == 2" in printed
    assert "1 failed" in printed
    assert "test_inner.py::test_it - " in printed, "it is not one test for each event loop"


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


def test_a_failing_test_shows_the_logs_of_its_processes(tmp_path: Path) -> None:
    printed = pytest_output(tmp_path, FAILING)
    assert "log of nats-server" in printed
    assert "Server is ready" in printed


def test_logs_outlive_the_directory_of_their_process(tmp_path: Path) -> None:
    printed = pytest_output(tmp_path, FAILING_OUTSIDE)
    assert "- log of nats-server -" in printed


def test_a_passing_test_shows_no_logs(tmp_path: Path) -> None:
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


def test_tests_that_run_side_by_side_may_log_any_text(tmp_path: Path) -> None:
    printed = pytest_output(tmp_path, LOGS_A_SURROGATE, "-n", "2")
    assert "1 passed" in printed
