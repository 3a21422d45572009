"""Writes run records as another program does: any content, without looking at the stored record."""

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.runs.snapshot import RunSnapshot, StoredRun
from pyoco_protocol.subjects import Names


async def put_record(broker: Broker, run: RunSnapshot) -> StoredRun:
    """Overwrite the record of a run, without compare-and-set and against any law."""
    answer = await ask(broker.client, Names().run(run.run_id), run.to_bytes())
    return StoredRun(run, int(answer["seq"]))
