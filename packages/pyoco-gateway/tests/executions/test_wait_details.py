"""The prompts and keys of waits in lists, also if an execution cannot be read."""

import uuid

from pyoco_gateway.executions.values import ReadValues
from pyoco_gateway.executions.wait_details import OpenWait, ReadWaitDetails
from stored_executions import StoredExecutions, line_of

WAIT = line_of("{id: ok, type: Wait, wait: {prompt: {text: Ship it?}}}")


async def waiting(stored: StoredExecutions) -> OpenWait:
    """Create an execution that waits; return the wait."""
    execution_id = await stored.create(WAIT)
    since = (await stored.state(execution_id)).state.nodes["ok"].waiting_since
    assert since is not None
    return OpenWait(execution_id, "ok", since)


async def test_a_wait_of_an_execution_that_cannot_be_read_has_no_details(
    stored: StoredExecutions,
) -> None:
    fine, damaged, too_new = [await waiting(stored) for _ in range(3)]
    await stored.write(damaged.execution_id, [b"not a commit"])
    await stored.write(too_new.execution_id, [b'{"v":2}'])
    gone = OpenWait(str(uuid.uuid4()), "ok", fine.since)
    cold = StoredExecutions(stored.broker)

    details = await ReadWaitDetails(cold.reader, ReadValues(cold.log))(
        [damaged, gone, too_new, fine]
    )

    assert details == {fine: {"prompt": {"text": "Ship it?"}}}


async def test_a_wait_that_is_over_has_no_details(stored: StoredExecutions) -> None:
    wait = await waiting(stored)
    earlier = wait._replace(since="2026-11-18T03:15:27.123Z")
    other_node = wait._replace(node_id="done")

    details = await ReadWaitDetails(stored.reader, ReadValues(stored.log))([earlier, other_node])

    assert details == {}
