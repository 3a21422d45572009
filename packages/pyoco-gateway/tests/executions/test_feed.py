"""Messages in the stream of executions that no gateway has written."""

import json

import pytest

from executions.index.indexed import indexing
from pyoco_protocol.jetstream.connection import Broker
from pyoco_testkit.eventually import eventually
from stored_executions import LINE, StoredExecutions, chain_of

LONG_AGO = "2020-01-01T00:00:00.000Z"
HEAD = {
    "status": "COMPLETED",
    "seq": 1,
    "n": 1,
    "graphId": "g",
    "graphVersion": 1,
    "createdAt": LONG_AGO,
    "updatedAt": LONG_AGO,
    "endedAt": LONG_AGO,
    "nextTimerAt": LONG_AGO,
    "counts": {},
}


@pytest.mark.parametrize("execution_id", ["*", ">"])
async def test_a_commit_whose_subject_is_a_wildcard_is_not_an_execution(
    broker: Broker, execution_id: str
) -> None:
    """The broker stores it. The end of a retention would purge all that they match."""
    async with indexing(StoredExecutions(broker)) as indexed:
        own = await indexed.stored.create(LINE)
        body = json.dumps({**json.loads(chain_of(execution_id, [1])[0]), "head": HEAD}).encode()
        await indexed.stored.write(execution_id, [body])
        await eventually(lambda: indexed.index.unreadable, 1)
        assert await indexed.ids(archived="any") == [own]
        assert await indexed.index.ended_before("2999-01-01T00:00:00.000Z", None, 10) == []
        assert await indexed.index.due_before("2999-01-01T00:00:00.000Z", None, 10) == []
