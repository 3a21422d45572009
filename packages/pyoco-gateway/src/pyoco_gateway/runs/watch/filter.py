"""Which runs somebody wants to see."""

from dataclasses import dataclass
from typing import Final

from pyoco_gateway.runs.outline import RunOutline
from pyoco_protocol.runs.lifecycle import RunStatus

_ANY_END: Final = "*"


@dataclass(frozen=True, slots=True)
class WatchFilter:
    """What a run must be like; what is left out leaves all in."""

    statuses: frozenset[RunStatus] = frozenset()
    # Ends in `*` where it is only a beginning.
    flow: str | None = None
    tag: str | None = None
    workflow_yaml_sha256: str | None = None
    # Never asked for in a query: whose runs the caller may see.
    tenant_id: str | None = None

    def wants_owner(self, owner: str | None) -> bool:
        """Whether runs of this tenant are in; those of nobody knows whom are in for all or none."""
        return self.tenant_id is None or self.tenant_id == owner

    def wants_status(self, status: RunStatus) -> bool:
        """Whether runs of this status are in."""
        return not self.statuses or status in self.statuses

    def wants_kind(self, run: RunOutline) -> bool:
        """Whether what never changes about a run lets it in."""
        return (
            (self.tag is None or self.tag == run.tag)
            and (
                self.workflow_yaml_sha256 is None
                or self.workflow_yaml_sha256 == run.workflow_yaml_sha256
            )
            and (self.flow is None or _fits(self.flow, run.flow_name))
        )


def _fits(pattern: str, flow_name: str) -> bool:
    if pattern.endswith(_ANY_END):
        return flow_name.startswith(pattern.removesuffix(_ANY_END))
    return flow_name == pattern
