"""How long to wait before a process that died is started again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Restarts:
    """Waits that double with each quick death, up to a limit."""

    first_wait_sec: float = 0.1
    longest_wait_sec: float = 5.0
    # One that lived this long was fine; its death starts the count anew.
    stable_after_sec: float = 10.0

    def quick_deaths(self, before: int, *, lived_sec: float) -> int:
        """Return how many quick deaths in a row there are now, after one more death."""
        return 1 if lived_sec >= self.stable_after_sec else before + 1

    def wait_sec(self, quick_deaths: int) -> float:
        """Return how long to wait after that many quick deaths in a row."""
        # The exponent is bounded, for a float is.
        doublings = min(max(quick_deaths - 1, 0), 32)
        return min(self.first_wait_sec * 2.0**doublings, self.longest_wait_sec)
