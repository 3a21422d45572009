"""A failing test is repeated once, alone; the summary of all sessions names it as flaky."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[1] / "tools"

# Each call of `first_time()` by the same test is counted in a file, over all processes.
HEADER = """
import os, time
from pathlib import Path

def first_time(name):
    runs = Path(__file__).with_name(name + ".runs")
    number = len(runs.read_text()) if runs.exists() else 0
    runs.write_text("x" * (number + 1))
    return number == 0
"""
PASSES = "def test_passes():\n    assert True\n"
FAILS_ONCE = "def test_fails_once():\n    assert not first_time('once')\n"
FAILS_TWICE = "def test_fails_twice():\n    first_time('twice')\n    assert False\n"
CRASHES_ONCE = "def test_crashes_once():\n    if first_time('crash'): os._exit(3)\n"
HANGS_ONCE = "def test_hangs_once():\n    if first_time('hang'): time.sleep(60)\n"
FAILS_THEN_SKIPS = """
import pytest

def test_fails_then_skips():
    if not first_time('skip'): pytest.skip()
    assert False
"""
BREAKS_ONCE_AT_ITS_END = """
import pytest

@pytest.fixture
def resource():
    yield
    assert not first_time('teardown')

def test_teardown_fails_once(resource):
    pass
"""


@dataclass(frozen=True)
class Ran:
    """The exit code, the printed lines, and the recorded outcome of one call."""

    code: int
    lines: list[str]
    outcome: dict[str, Any]

    @property
    def counts(self) -> dict[str, int]:
        """The recorded counts without the zeros."""
        return {word: count for word, count in self.outcome["counts"].items() if count}


def run_project(
    folder: Path,
    *tests: str,
    options: tuple[str, ...] = (),
    modules: tuple[str, ...] = ("test_generated.py",),
) -> Ran:
    """Run `modules` with tools/run_tests.py; the first one is generated from `tests`."""
    options_file = "[pytest]\naddopts = -p xdist -p pytest_timeout\n"
    (folder / "pytest.ini").write_text(options_file, encoding="utf-8")
    (folder / modules[0]).write_text("\n\n".join([HEADER, *tests]), encoding="utf-8")
    file = folder / "outcomes" / "generated.json"
    done = subprocess.run(
        [
            *(sys.executable, str(TOOLS / "run_tests.py"), "--outcome", str(file)),
            *(*modules, *options),
        ],
        cwd=folder,
        # Other plugins of the environment would only take time.
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    outcome = json.loads(file.read_text(encoding="utf-8"))
    return Ran(done.returncode, done.stdout.splitlines(), outcome)


def runs_of(folder: Path, name: str) -> int:
    """Return how often the test that calls `first_time(name)` was run."""
    return len((folder / f"{name}.runs").read_text(encoding="utf-8"))


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["in one process", "with xdist"])
def test_a_test_that_fails_once_is_named_and_the_run_is_green(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    ran = run_project(tmp_path, PASSES, FAILS_ONCE, options=options)

    assert ran.code == 0
    assert ran.lines[-1] == "flaky: test_generated.py::test_fails_once"
    assert re.fullmatch(r"=+ 2 passed in [\d.]+s =+", ran.lines[-2])
    assert ran.counts == {"passed": 2}
    assert ran.outcome["flaky"] == ["test_generated.py::test_fails_once"]
    assert runs_of(tmp_path, "once") == 2


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["in one process", "with xdist"])
def test_a_test_that_fails_twice_makes_the_run_red(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    ran = run_project(tmp_path, PASSES, FAILS_ONCE, FAILS_TWICE, options=options)

    assert ran.code == 1
    assert re.fullmatch(r"=+ 1 failed, 2 passed in [\d.]+s =+", ran.lines[-1])
    assert ran.lines[-2] == "flaky: test_generated.py::test_fails_once"
    assert ran.counts == {"failed": 1, "passed": 2}
    assert runs_of(tmp_path, "twice") == 2


def test_nothing_is_repeated_after_a_green_run(tmp_path: Path) -> None:
    ran = run_project(tmp_path, PASSES)

    assert (ran.code, ran.counts, ran.outcome["flaky"]) == (0, {"passed": 1}, [])
    assert not [line for line in ran.lines if "repeating" in line or "flaky" in line]
    assert re.fullmatch(r"=+ 1 passed in [\d.]+s =+", ran.lines[-1])


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["in one process", "with xdist"])
def test_a_collection_error_makes_the_run_red(tmp_path: Path, options: tuple[str, ...]) -> None:
    ran = run_project(tmp_path, FAILS_ONCE, "import absent_module", options=options)

    assert ran.code != 0
    assert ran.counts["errors"] == 1
    assert not [line for line in ran.lines if "repeating" in line or "flaky" in line]


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["in one process", "with xdist"])
def test_a_test_that_fails_once_does_not_hide_an_error_in_another_module(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "test_broken.py").write_text("import absent_module\n", encoding="utf-8")
    modules = ("test_generated.py", "test_broken.py")
    ran = run_project(tmp_path, PASSES, FAILS_ONCE, options=options, modules=modules)

    assert ran.code != 0
    assert ran.counts["errors"] == 1
    assert ran.outcome["exit_code"] != 0
    assert not [line for line in ran.lines if "repeating" in line or "flaky" in line]


def test_a_repetition_that_is_skipped_does_not_count_as_passed(tmp_path: Path) -> None:
    ran = run_project(tmp_path, PASSES, FAILS_THEN_SKIPS)

    assert (ran.code, ran.counts) == (1, {"failed": 1, "passed": 1})
    assert ran.outcome["flaky"] == []
    assert runs_of(tmp_path, "skip") == 2


def test_a_run_that_ended_before_all_tests_had_an_outcome_stays_red(tmp_path: Path) -> None:
    options = ("-n", "1", "--max-worker-restart=0")
    ran = run_project(tmp_path, CRASHES_ONCE, PASSES, options=options)

    assert (ran.code, ran.counts) == (1, {"failed": 1})
    assert runs_of(tmp_path, "crash") == 1


def test_a_test_that_crashed_its_process_is_repeated(tmp_path: Path) -> None:
    ran = run_project(tmp_path, PASSES, CRASHES_ONCE, options=("-n", "2"))

    assert (ran.code, ran.counts) == (0, {"passed": 2})
    assert ran.lines[-1] == "flaky: test_generated.py::test_crashes_once"


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["in one process", "with xdist"])
def test_a_test_that_timed_out_is_repeated(tmp_path: Path, options: tuple[str, ...]) -> None:
    ran = run_project(tmp_path, HANGS_ONCE, options=("--timeout=1", *options))

    assert (ran.code, ran.counts) == (0, {"passed": 1})
    assert ran.lines[-1] == "flaky: test_generated.py::test_hangs_once"


def test_a_test_that_failed_at_teardown_is_repeated_and_counts_once(tmp_path: Path) -> None:
    ran = run_project(tmp_path, BREAKS_ONCE_AT_ITS_END)

    assert (ran.code, ran.counts) == (0, {"passed": 1})


def test_many_failing_tests_are_not_repeated(tmp_path: Path) -> None:
    parametrized = "import pytest\n@pytest.mark.parametrize('n', range(11))\n"
    ran = run_project(tmp_path, f"{parametrized}def test_n(n):\n    assert not first_time(str(n))")

    assert (ran.code, ran.counts) == (1, {"failed": 11})
    assert [runs_of(tmp_path, str(number)) for number in range(11)] == [1] * 11


@pytest.mark.parametrize("options", [("-x",), ("-x", "-n", "2")], ids=["alone", "with xdist"])
def test_a_run_that_stopped_early_stays_red(tmp_path: Path, options: tuple[str, ...]) -> None:
    ran = run_project(tmp_path, FAILS_ONCE, options=options)

    assert ran.code != 0
    assert runs_of(tmp_path, "once") == 1


def test_the_repeated_test_gets_the_same_options_and_no_other_test(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--wanted')\n", encoding="utf-8"
    )
    test = "def test_option(pytestconfig):\n    assert pytestconfig.getoption('--wanted') == 'x'\n"
    ran = run_project(
        tmp_path,
        f"{test}    assert not first_time('option')\n",
        "def test_other():\n    first_time('other')\n",
        options=("--wanted", "x"),
    )

    assert (ran.code, ran.counts) == (0, {"passed": 2})
    assert runs_of(tmp_path, "other") == 1


def summarise(folder: Path, exit_code: int) -> tuple[int, list[str]]:
    """Return exit code and output of tools/summarise_tests.py, run without any dependency."""
    done = subprocess.run(
        [
            *(sys.executable, "-S", str(TOOLS / "summarise_tests.py")),
            *(str(folder), str(exit_code)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def summary_of(folder: Path, exit_code: int) -> list[str]:
    """Return the lines of the summary, which must keep the exit code."""
    code, lines = summarise(folder, exit_code)
    assert code == exit_code
    return lines


def write_outcome(folder: Path, name: str, counts: dict[str, int], *flaky: str) -> None:
    durations = {f"test_{name}.py::test_{number}": number / 10 for number in range(30)}
    outcome = {"counts": counts, "durations": durations, "flaky": flaky, "seconds": 10.5}
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(outcome), encoding="utf-8")


def test_the_summary_adds_all_sessions_and_ends_with_the_flaky_tests(tmp_path: Path) -> None:
    write_outcome(tmp_path, "tests", {"passed": 300, "skipped": 1}, "test_a.py::test_a")
    write_outcome(tmp_path, "e2e", {"passed": 100, "failed": 0})

    lines = summary_of(tmp_path, exit_code=0)

    assert "tests: 300 passed, 1 skipped in 10.50s" in lines
    assert "e2e: 100 passed in 10.50s" in lines
    assert lines[-2].strip("= ") == "400 passed, 1 skipped in 21.00s"
    assert lines[-1] == "flaky: test_a.py::test_a (tests)"


def test_the_summary_lists_the_twenty_slowest_tests_of_all_sessions(tmp_path: Path) -> None:
    write_outcome(tmp_path, "tests", {"passed": 30})
    write_outcome(tmp_path, "e2e", {"passed": 30})

    lines = summary_of(tmp_path, exit_code=0)

    slowest = lines[1 : lines.index("tests: 30 passed in 10.50s")]
    assert len(slowest) == 20
    assert slowest[0].split() == ["2.90s", "test_tests.py::test_29", "(tests)"]
    assert slowest[-1].split() == ["2.00s", "test_e2e.py::test_20", "(e2e)"]


def test_the_summary_of_a_failed_run_does_not_look_green(tmp_path: Path) -> None:
    write_outcome(tmp_path, "tests", {"passed": 30})

    assert summary_of(tmp_path, exit_code=1)[-1].strip("= ") == "30 passed, 1 error in 10.50s"


def test_the_summary_of_a_failed_run_ends_with_the_counts(tmp_path: Path) -> None:
    write_outcome(tmp_path, "tests", {"passed": 30, "failed": 1}, "test_a.py::test_a")

    lines = summary_of(tmp_path, exit_code=1)

    assert lines[-1].strip("= ") == "1 failed, 30 passed in 10.50s"
    assert lines[-2] == "flaky: test_a.py::test_a (tests)"


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        ({"errors": 1}, "30 passed, 1 error in 10.50s"),
        ({"errors": 2}, "30 passed, 2 errors in 10.50s"),
        ({"failed": 1}, "1 failed, 30 passed in 10.50s"),
    ],
    ids=["one error", "two errors", "a failed test"],
)
def test_a_red_outcome_makes_the_run_red_although_nox_was_not(
    tmp_path: Path, count: dict[str, int], expected: str
) -> None:
    write_outcome(tmp_path, "tests", {"passed": 30, **count}, "test_a.py::test_a")

    code, lines = summarise(tmp_path, exit_code=0)

    assert code == 1
    assert lines[-1].strip("= ") == expected


def test_the_summary_of_no_session_says_so(tmp_path: Path) -> None:
    assert summary_of(tmp_path, exit_code=0)[-1].strip("= ") == "no tests ran in 0.00s"
