"""Kills the process groups of a worker's children after the worker has died.

A separate script, `python -I -S watchdog_process.py`, that uses the standard library only. It
reads process groups from stdin, one per line: `+123` adds a group, `-123` removes it. The pipe
closes when the worker ends in any way, and the script then kills the groups that are left. A
parent-death signal is not enough: it kills the children, but not the processes that flows started.
"""

import os
import signal
import sys
from collections.abc import Iterable


def groups_left(lines: Iterable[str]) -> set[int]:
    """Return the groups that were added and not removed."""
    groups: set[int] = set()
    for line in lines:
        if line.startswith("+"):
            groups.add(int(line[1:]))
        else:
            groups.discard(int(line[1:]))
    return groups


def main() -> None:
    """Wait for the end of the worker, then kill the groups that are left."""
    for group in groups_left(sys.stdin):
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            # The group has ended. macOS reports EPERM if only zombies are left.
            continue


if __name__ == "__main__":
    main()
