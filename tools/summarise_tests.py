"""Prints the outcomes of all test sessions together, as the last lines of a CI log.

`python tools/summarise_tests.py FOLDER EXIT_CODE` reads what `run_tests.py --outcome` wrote into
FOLDER; EXIT_CODE is that of nox. It prints the slowest tests, the counts of each session, their
sum, and the names of flaky tests.
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
    total: Counter[str] = Counter()
    for outcome in sessions.values():
        total.update(outcome["counts"])
    if exit_code and not total["failed"]:
        # A linter failed, or a session ended before it could write its outcome.
        total["errors"] = max(total["errors"], 1)
    flaky = [f"{test} ({name})" for name, outcome in sessions.items() for test in outcome["flaky"]]
    return [
        f"{SLOWEST} slowest tests:",
        *slowest(sessions),
        *(f"{name}: {line_of(outcome)}" for name, outcome in sessions.items()),
        summary_line(total, sum(outcome["seconds"] for outcome in sessions.values())),
        *([flaky_line(flaky)] if flaky else []),
    ]


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
    return f"{'=' * 20} {', '.join(parts) or 'no tests ran'} in {seconds:.2f}s {'=' * 20}"


def flaky_line(names: list[str]) -> str:
    """Return the line that names the tests that passed only when they were repeated."""
    return f"flaky: {', '.join(names)}"


def main(folder: Path, exit_code: int) -> None:
    """Print the summary of the outcomes in a folder."""
    files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime)
    sessions = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    sys.stdout.write("\n".join(lines(sessions, exit_code)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
