"""Labels of run metrics: bounded in number, and the hidden label that names the tenant."""

from collections.abc import Iterable
from typing import Final

from prometheus_client.samples import Sample

from pyoco_gateway.access.caller import Caller

# Counted by tenant, but no page shows this label.
TENANT: Final = "tenant"
OTHER: Final = "other"
MAX_VALUES: Final = 100


class BoundedLabels:
    """Keeps the first combinations of label values; later ones become `other`.

    Callers choose the names of flows and tags, and each combination is a time series.
    """

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


def visible_samples(caller: Caller, samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples that a caller may see, without the tenant label.

    A tenant gets its own samples. A caller without a tenant gets the sums over all tenants.
    """
    visible: dict[tuple[str, tuple[tuple[str, str], ...]], Sample] = {}
    for each in samples:
        tenant_id = each.labels.get(TENANT)
        if tenant_id is not None and not caller.owns(tenant_id):
            continue
        labels = {name: value for name, value in each.labels.items() if name != TENANT}
        key = (each.name, tuple(labels.items()))
        value = each.value + (visible[key].value if key in visible else 0.0)
        visible[key] = each._replace(labels=labels, value=value)
    return list(visible.values())
