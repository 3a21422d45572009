"""Runs pytest, and runs each failing test once more, alone, before it counts as failed.

`python tools/run_tests.py [--outcome FILE] PYTEST_ARGUMENT…` ends with the exit code of pytest, or
with 0 if every failing test passed when it was repeated. A line `flaky:` names those tests; it is
the last line only if the exit code is 0. `--outcome` also writes counts and durations to a file,
for summarise_tests.py.
"""

import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from summarise_tests import closing_lines

# More failing tests than this have a common cause, which a repetition does not remove.
MAX_REPEATED: Final = 10


@dataclass
class Outcome:
    """Counts and durations of one call of pytest, in which a repeated test counts once."""

    exit_code: int
    counts: Counter[str]
    durations: dict[str, float]
    flaky: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def lines(self) -> list[str]:
        """Return the counts in the form of pytest's last line, and the flaky tests."""
        return closing_lines(self.counts, self.seconds, self.flaky, self.exit_code)


class Recorder:
    """A pytest plugin that records the outcome and the duration of each test."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.durations: dict[str, float] = {}
        self.collection_errors = 0
        self.is_complete = False
        self.repeat_arguments: list[str] = []

    def pytest_configure(self, config: pytest.Config) -> None:
        """Derive the arguments that run a test alone: the same options, no paths, no xdist."""
        paths = set(config.option.file_or_dir)
        given = [str(argument) for argument in config.invocation_params.args]
        self.repeat_arguments = [argument for argument in given if argument not in paths]
        if config.pluginmanager.hasplugin("xdist"):
            self.repeat_arguments.append("--numprocesses=0")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count modules that cannot be imported."""
        self.collection_errors += report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record one phase of a test; a failure in any phase makes the test fail."""
        test = report.nodeid
        self.durations[test] = self.durations.get(test, 0.0) + report.duration
        if report.failed:
            self.outcomes[test] = "failed"
        elif report.skipped:
            self.outcomes.setdefault(test, "xfailed" if hasattr(report, "wasxfail") else "skipped")
        elif report.when == "call":
            self.outcomes.setdefault(test, "passed")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Note whether every collected test has an outcome.

        Options such as `--exitfirst` end a run early, and so do processes of xdist that crash
        too often.
        """
        stopped_early = session.shouldfail or session.shouldstop or session.config.option.usepdb
        has_all_outcomes = len(self.outcomes) == session.testscollected
        self.is_complete = has_all_outcomes and not stopped_early and not self.collection_errors

    def failed(self) -> list[str]:
        """Return the failing tests."""
        return [test for test, outcome in self.outcomes.items() if outcome == "failed"]


def run(arguments: list[str]) -> Outcome:
    """Return the outcome of pytest after each failing test was repeated."""
    began = time.monotonic()
    recorder = Recorder()
    code = int(pytest.main(arguments, plugins=[recorder]))
    counts = Counter(recorder.outcomes.values())
    counts["errors"] = recorder.collection_errors
    outcome = Outcome(code, counts, recorder.durations)
    failed = recorder.failed()
    # xdist runs the other modules after a collection error, and ends with the same exit code.
    can_repeat = code == pytest.ExitCode.TESTS_FAILED and recorder.is_complete
    if can_repeat and 0 < len(failed) <= MAX_REPEATED:
        outcome.flaky = [test for test in failed if passes_alone(test, recorder.repeat_arguments)]
        counts["failed"] -= len(outcome.flaky)
        counts["passed"] += len(outcome.flaky)
        if not counts["failed"]:
            outcome.exit_code = pytest.ExitCode.OK
    outcome.seconds = time.monotonic() - began
    return outcome


def passes_alone(test: str, arguments: list[str]) -> bool:
    """Return whether a test passes in a new process."""
    say(f"\nrepeating alone: {test}")
    command = [sys.executable, __file__, "--alone", test, *arguments]
    return subprocess.run(command, check=False).returncode == pytest.ExitCode.OK


def run_alone(test: str, arguments: list[str]) -> int:
    """Run one test, and return 0 only if it passed; pytest returns 0 for a skipped one too."""
    recorder = Recorder()
    code = int(pytest.main([*arguments, test], plugins=[recorder]))
    has_passed = recorder.outcomes == {test: "passed"}
    return code if code or has_passed else int(pytest.ExitCode.TESTS_FAILED)


def say(line: str) -> None:
    """Print a line before the output of the next process."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Run pytest with `arguments`, and return the exit code."""
    if arguments[:1] == ["--alone"]:
        return run_alone(arguments[1], arguments[2:])
    file = None
    if arguments[:1] == ["--outcome"]:
        file, arguments = Path(arguments[1]), arguments[2:]
    outcome = run(arguments)
    if outcome.flaky or outcome.counts["failed"]:
        say("\n".join(outcome.lines()))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(vars(outcome)), encoding="utf-8")
    return outcome.exit_code


if __name__ == "__main__":
    # Tests must not import modules from the folder of this script.
    del sys.path[0]
    sys.exit(main(sys.argv[1:]))
