"""The filter of a watch on runs."""

from dataclasses import dataclass
from typing import Final

from pyoco_gateway.runs.outline import RunOutline
from pyoco_protocol.runs.lifecycle import RunStatus

_WILDCARD: Final = "*"


@dataclass(frozen=True, slots=True)
class WatchFilter:
    """The runs to watch; a condition that is None or empty matches all runs."""

    statuses: frozenset[RunStatus] = frozenset()
    # A name, or a prefix that ends in `*`.
    flow: str | None = None
    tag: str | None = None
    workflow_yaml_sha256: str | None = None
    # Set from the caller, never from the query string.
    tenant_id: str | None = None

    def matches_tenant(self, tenant_id: str | None) -> bool:
        """Whether runs of this tenant match; an unknown tenant matches only without a filter."""
        return self.tenant_id is None or self.tenant_id == tenant_id

    def matches_status(self, status: RunStatus) -> bool:
        """Whether runs with this status match."""
        return not self.statuses or status in self.statuses

    def matches_fields(self, run: RunOutline) -> bool:
        """Whether the fields that never change match: tag, flow and workflow file."""
        return (
            (self.tag is None or self.tag == run.tag)
            and (
                self.workflow_yaml_sha256 is None
                or self.workflow_yaml_sha256 == run.workflow_yaml_sha256
            )
            and (self.flow is None or _matches(self.flow, run.flow_name))
        )


def _matches(pattern: str, flow_name: str) -> bool:
    if pattern.endswith(_WILDCARD):
        return flow_name.startswith(pattern.removesuffix(_WILDCARD))
    return flow_name == pattern
