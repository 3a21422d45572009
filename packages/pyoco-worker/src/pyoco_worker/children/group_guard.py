"""Ends the process groups of a worker's children when the worker itself is gone.

A script of its own: `python -I -S group_guard.py`, standard library only. It hears on stdin
which groups there are, `+123` or `-123` to the line. The pipe ends with the worker, however that
one ends, and what is left then is killed. A parent-death signal does not do that: it reaches the
children, which cannot then end what their flows have started.
"""

import os
import signal
import sys
from collections.abc import Iterable


def groups_left(lines: Iterable[str]) -> set[int]:
    """Return the groups that were named and not taken back."""
    groups: set[int] = set()
    for line in lines:
        if line.startswith("+"):
            groups.add(int(line[1:]))
        else:
            groups.discard(int(line[1:]))
    return groups


def main() -> None:
    """Wait for the end of the worker, then kill what it left."""
    for group in groups_left(sys.stdin):
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            # Gone with the worker. (macOS says EPERM where only zombies are left.)
            continue


if __name__ == "__main__":
    main()
