"""The state of streams on the wire."""

from pyoco_protocol.http.health import ResourceDifference, StreamHealth
from pyoco_protocol.jetstream.ensure import Difference
from pyoco_protocol.jetstream.inspection import StreamFound


def stream_health(found: StreamFound) -> StreamHealth:
    """Return the state of a stream."""
    if found.state is None:
        return StreamHealth(name=found.name, state="missing")
    return StreamHealth(
        name=found.name,
        state="differs" if found.differences else "ok",
        messages=found.state.messages,
        bytes=found.state.size_bytes,
        differences=tuple(map(difference_health, found.differences)),
    )


def difference_health(found: Difference) -> ResourceDifference:
    """Return a setting that differs from the wanted value."""
    return ResourceDifference.model_validate(
        {"setting": found.setting, "wanted": found.wanted, "found": found.found}
    )
