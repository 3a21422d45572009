"""The stored form of a version of a graph."""

import json
from typing import Any, Final

from pydantic import ValidationError

from pyoco_protocol.executions.camel import CamelModel
from pyoco_protocol.executions.instants import Instant
from pyoco_protocol.jetstream.graph_versions import StoredVersion
from pyoco_protocol.problems import GraphCorruptError

RECORD_VERSION: Final = 1


class VersionRecord(CamelModel):
    """A version as it is stored in the stream of graphs."""

    v: int = RECORD_VERSION
    graph_id: str
    version: int
    # SHA-256 of the canonical JSON of the document.
    hash: str
    at: Instant
    # The id of the actor that stored the version.
    by: str
    # As it was given: without defaults, with its nulls.
    document: dict[str, Any]

    def to_bytes(self) -> bytes:
        """Return the message body."""
        fields = self.model_dump(by_alias=True)
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def record_of(stored: StoredVersion) -> VersionRecord:
    """Return the record in a message; raise GraphCorruptError if it cannot be read."""
    try:
        # The numbers of the document must be those that were hashed, so the same parser reads them.
        record = VersionRecord.model_validate(json.loads(stored.body))
    except (ValueError, RecursionError) as error:
        faults = f" ({error.error_count()} faults)" if isinstance(error, ValidationError) else ""
        # Not chained: the original error would carry values of the document into the log.
        problem = f"the record cannot be read{faults}"
        raise GraphCorruptError(stored.graph_id, 0, problem) from None
    if record.v != RECORD_VERSION:
        problem = f"the record has the format {record.v}, which this gateway does not know"
        raise GraphCorruptError(stored.graph_id, record.version, problem)
    if record.graph_id != stored.graph_id:
        problem = "the record belongs to another graph"
        raise GraphCorruptError(stored.graph_id, record.version, problem)
    return record
