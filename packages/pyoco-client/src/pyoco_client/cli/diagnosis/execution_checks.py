"""Checks of executions: whether they can be used, and how fast their log grows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyoco_client.cli.diagnosis.findings import Finding, Level, fine, warning
from pyoco_client.cli.diagnosis.resource_checks import resource_finding
from pyoco_client.cli.display.cells import moment
from pyoco_client.cli.display.progress import size_of

_CHECK: Final = "executions"
# A log whose space lasts for a shorter time is a warning.
_DAYS: Final = 30


def execution_findings(found: Any) -> Iterator[Finding]:
    """Yield the findings about executions; none for a gateway that does not know them."""
    if not isinstance(found, Mapping):
        return
    if not found.get("available"):
        yield _unavailable(problems_of(found))
        return
    resources = resource_finding(_CHECK, found.get("streams"))
    if resources.level is not Level.OK:
        yield resources
    growth = found.get("growth")
    if isinstance(growth, Mapping):
        yield _growth(growth)


def problems_of(found: Any) -> list[str]:
    """Return what keeps the gateway from serving executions."""
    problems = found.get("problems") if isinstance(found, Mapping) else None
    return [str(each) for each in problems] if isinstance(problems, Sequence) else []


def _unavailable(problems: Sequence[str]) -> Finding:
    if not problems:
        return warning(
            _CHECK, "not available yet: the gateway is checking their streams", "Try again."
        )
    return warning(
        _CHECK,
        f"not available, runs are: {'; '.join(problems)}",
        "Operators: solve this on the broker; the gateway tries again every 30 s. After an upgrade,"
        " write the broker's configuration again: `pyoco-server-admin nats-config --force`.",
    )


def _growth(growth: Mapping[str, Any]) -> Finding:
    message = (
        f"{_amount(growth, 'commits', 'size_bytes')}{_since(growth)}; "
        f"{_amount(growth, 'day_commits', 'day_bytes')} in the last 24 hours"
    )
    free, days = growth.get("free_bytes"), growth.get("full_in_days")
    if isinstance(free, int):
        message += f"; {size_of(free)} free"
    if isinstance(days, int | float) and days < _DAYS:
        return warning(
            _CHECK,
            f"{message}, which is full in {days:.0f} days at this rate",
            "Give the broker more disk space. Ended executions are removed only with"
            " PYOCO_EXECUTION_RETENTION_SEC; docs/settings.md says how to move to it.",
        )
    return fine(_CHECK, message)


def _amount(growth: Mapping[str, Any], commits: str, size: str) -> str:
    number, found = growth.get(commits), growth.get(size)
    plural = "" if number == 1 else "s"
    return f"{number} commit{plural} with {size_of(found) if isinstance(found, int) else '?'}"


def _since(growth: Mapping[str, Any]) -> str:
    created = growth.get("created_at")
    return f" since {moment(created)[:10]}" if isinstance(created, int | float) else ""
