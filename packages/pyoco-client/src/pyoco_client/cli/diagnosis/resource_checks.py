"""Checks of streams, buckets and consumers."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyoco_client.cli.diagnosis.findings import Finding, failure, fine, warning

# Maximum number of names in a list.
NAMED: Final = 5


def resource_finding(check: str, found: Any) -> Finding:
    """Return the finding about resources that the gateway compares with its settings."""
    if not isinstance(found, Sequence):
        return warning(
            check, "the broker did not answer in time", "Try again; the broker may be overloaded."
        )
    resources = [each for each in found if isinstance(each, Mapping)]
    missing = [str(each.get("name")) for each in resources if each.get("state") == "missing"]
    if missing:
        return failure(
            check,
            f"missing: {listed(missing)}",
            "Restart the gateway: it creates missing resources. If it cannot, its log says why.",
        )
    different = [
        f"{each.get('name')} ({_differences(each)})"
        for each in resources
        if each.get("state") == "differs"
    ]
    if different:
        return warning(
            check,
            f"different from the gateway's settings: {listed(different)}",
            "The broker's values are in effect. Change them there (nats stream edit, nats consumer"
            " edit), or change the gateway's settings if the values are intended.",
        )
    return fine(check, f"{len(resources)}, all as configured")


def _differences(resource: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{each.get('setting')} is {each.get('found')}, wanted {each.get('wanted')}"
        for each in resource.get("differences") or ()
        if isinstance(each, Mapping)
    )


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
