"""Prints the outcomes of all test sessions together, as the last lines of a CI log.

`python tools/summarise_tests.py FOLDER EXIT_CODE` reads what `run_tests.py --outcome` wrote into
FOLDER; EXIT_CODE is that of nox. It prints the slowest tests, the counts of each session, their
sum, and the names of flaky tests. The exit code is EXIT_CODE, or 1 if a session that nox accepted
has failed tests or errors.
"""

import json
import sys
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any, Final

SLOWEST: Final = 20


def lines(sessions: dict[str, dict[str, Any]], exit_code: int) -> list[str]:
    """Return the lines to print for the outcomes of `sessions`, by name."""
    counts = total(sessions)
    if exit_code and not counts["failed"]:
        # A linter failed, or a session ended before it could write its outcome.
        counts["errors"] = max(counts["errors"], 1)
    seconds = sum(outcome["seconds"] for outcome in sessions.values())
    flaky = [f"{test} ({name})" for name, outcome in sessions.items() for test in outcome["flaky"]]
    return [
        f"{SLOWEST} slowest tests:",
        *slowest(sessions),
        *(f"{name}: {line_of(outcome)}" for name, outcome in sessions.items()),
        *closing_lines(counts, seconds, flaky, exit_code),
    ]


def total(sessions: dict[str, dict[str, Any]]) -> Counter[str]:
    """Return the sum of the counts of all sessions."""
    counts: Counter[str] = Counter()
    for outcome in sessions.values():
        counts.update(outcome["counts"])
    return counts


def slowest(sessions: dict[str, dict[str, Any]]) -> list[str]:
    """Return the slowest tests of all sessions, the slowest first."""
    tests = chain.from_iterable(
        ((seconds, test, name) for test, seconds in outcome["durations"].items())
        for name, outcome in sessions.items()
    )
    chosen = sorted(tests, reverse=True)[:SLOWEST]
    return [f"{seconds:7.2f}s {test} ({name})" for seconds, test, name in chosen]


def line_of(outcome: dict[str, Any]) -> str:
    """Return the counts of one session without the rulers around them."""
    return summary_line(Counter(outcome["counts"]), outcome["seconds"]).strip("= ")


def summary_line(counts: Counter[str], seconds: float) -> str:
    """Return counts in the form of pytest's last line."""
    order = ("failed", "passed", "skipped", "xfailed", "errors")
    parts = [f"{counts[word]} {word}" for word in order if counts[word]]
    if counts["errors"] == 1:
        parts[-1] = "1 error"
    return f"{'=' * 20} {', '.join(parts) or 'no tests ran'} in {seconds:.2f}s {'=' * 20}"


def closing_lines(
    counts: Counter[str], seconds: float, flaky: list[str], exit_code: int
) -> list[str]:
    """Return the counts and the tests that passed only when they were repeated.

    A green run with such tests ends with their names, and a red run with its counts.
    """
    summary = summary_line(counts, seconds)
    if not flaky:
        return [summary]
    names = f"flaky: {', '.join(flaky)}"
    return [names, summary] if exit_code else [summary, names]


def main(folder: Path, exit_code: int) -> int:
    """Print the summary of the outcomes in a folder, and return the exit code of all checks."""
    files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime)
    sessions = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    counts = total(sessions)
    if not exit_code and (counts["failed"] or counts["errors"]):
        exit_code = 1
    sys.stdout.write("\n".join(lines(sessions, exit_code)) + "\n")
    return exit_code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
