"""Delays before restarts of a process."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartDelays:
    """Delays that double with each quick exit, up to a limit."""

    first_wait_sec: float = 0.1
    longest_wait_sec: float = 5.0
    # An exit after this time is not a quick one and resets the count.
    stable_after_sec: float = 10.0

    def quick_exits(self, before: int, *, ran_sec: float) -> int:
        """Return the number of quick exits in a row, after one more exit."""
        return 1 if ran_sec >= self.stable_after_sec else before + 1

    def wait_sec(self, quick_exits: int) -> float:
        """Return the delay after that many quick exits in a row."""
        # A larger exponent would overflow a float.
        doublings = min(max(quick_exits - 1, 0), 32)
        return min(self.first_wait_sec * 2.0**doublings, self.longest_wait_sec)
