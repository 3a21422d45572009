"""What a list shows of a run, made from its record."""

from typing import Final

from pydantic import ValidationError

from pyoco_protocol.http.run_lists import RunListItem

# The start of an error tells which one it is; the whole is in the run's snapshot.
_MAX_ERROR_CHARS: Final = 300


def list_item(record: bytes) -> RunListItem | None:
    """Return what a list shows of a record; None where it cannot be read."""
    try:
        item = RunListItem.model_validate_json(record)
    except ValidationError:
        return None
    if item.error is not None and len(item.error) > _MAX_ERROR_CHARS:
        return item.model_copy(update={"error": item.error[: _MAX_ERROR_CHARS - 1] + "…"})
    return item
