"""Label values that callers choose, kept to a number that a scrape can bear."""

from typing import Final

OTHER: Final = "other"
MAX_VALUES: Final = 100


class BoundedLabels:
    """Lets the first so many combinations through; all that come later are `other`."""

    def __init__(self, max_values: int = MAX_VALUES) -> None:
        self._max_values = max_values
        self._seen: set[tuple[str, ...]] = set()

    def of(self, *values: str) -> tuple[str, ...]:
        """Return the labels to use for these values."""
        if values in self._seen:
            return values
        if len(self._seen) >= self._max_values:
            return (OTHER,) * len(values)
        self._seen.add(values)
        return values
