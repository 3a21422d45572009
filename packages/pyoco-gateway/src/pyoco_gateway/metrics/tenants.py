"""Whose the numbers are that are counted by tenant; no page says so."""

from collections.abc import Iterable
from typing import Final

from prometheus_client.samples import Sample

from pyoco_gateway.access.caller import Caller

TENANT: Final = "tenant"


def seen_by(caller: Caller, samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples as a caller may see them, none of which names a tenant.

    A tenant sees its own. Anybody sees sums, for whom there are no tenants.
    """
    seen: dict[tuple[str, tuple[tuple[str, str], ...]], Sample] = {}
    for each in samples:
        owner = each.labels.get(TENANT)
        if owner is not None and not caller.owns(owner):
            continue
        labels = {name: value for name, value in each.labels.items() if name != TENANT}
        key = (each.name, tuple(labels.items()))
        value = each.value + (seen[key].value if key in seen else 0.0)
        seen[key] = each._replace(labels=labels, value=value)
    return list(seen.values())
