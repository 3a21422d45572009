"""Parses metrics in the text format of Prometheus."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_SAMPLE: Final = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$")
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPES: Final = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One sample, such as `pyoco_runs_total{status="COMPLETED"} 12.0`."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse_metrics(text: str) -> list[MetricSample]:
    """Return the samples of a metrics text, in its order; other lines are skipped."""
    samples = []
    for line in text.splitlines():
        found = None if line.startswith("#") else _SAMPLE.match(line.strip())
        if found is None:
            continue
        name, labels, value = found.groups()
        try:
            number = float(value)
        except ValueError:
            continue
        named = {key: _unescaped(text) for key, text in _LABEL.findall(labels or "")}
        samples.append(MetricSample(name, named, number))
    return samples


def _unescaped(text: str) -> str:
    return re.sub(r"\\.", lambda found: _ESCAPES.get(found[0], found[0]), text)
