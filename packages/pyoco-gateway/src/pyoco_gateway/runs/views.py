"""The JSON of a run as callers see it."""

from collections.abc import Set
from typing import Final, Literal

from pyoco_protocol.runs.snapshot import RunSnapshot

INTERNAL_FIELDS: Final = frozenset({"request_hash", "accepted_by", "seal"})
RECORDS: Final = frozenset({"task_records"})

Include = Literal["records", "full", "all"]


def run_json(run: RunSnapshot, *, with_records: bool) -> str:
    """Return a run's JSON without internal fields, with task inputs and results on request."""
    hidden: Set[str] = INTERNAL_FIELDS if with_records else INTERNAL_FIELDS | RECORDS
    return run.model_dump_json(exclude=set(hidden))
