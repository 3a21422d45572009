"""A worker ends a run in a fixed order of steps, checked by freezing it after each step."""

import psutil
import pytest

from pyoco_protocol.failpoints import Failpoint
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack


@pytest.mark.parametrize(
    ("place", "flow", "status", "letters", "jobs"),
    [
        (Failpoint.FLOW_OVER, "noop", "RUNNING", 0, 1),
        (Failpoint.END_STORED, "noop", "COMPLETED", 0, 1),
        (Failpoint.END_STORED, "fail", "FAILED", 0, 1),
        (Failpoint.LETTER_STORED, "fail", "FAILED", 1, 1),
        (Failpoint.JOB_ACKED, "fail", "FAILED", 1, 0),
    ],
)
async def test_a_job_is_acknowledged_after_the_record_and_the_dead_letter_are_stored(
    stack: Stack,
    flows: str,
    *,
    place: Failpoint,
    flow: str,
    status: str,
    letters: int,
    jobs: int,
) -> None:
    """With another order, a crash between two steps would lose the run or the dead letter."""
    async with stack.worker(flows=flows, env={"PYOCO_FAILPOINT": f"{place}:stop"}) as worker:
        run_id = await stack.client.submit(flow)
        await eventually(lambda: psutil.Process(worker.pid).status(), psutil.STATUS_STOPPED)
        assert await stack.client.status(run_id) == status
        assert await stack.message_count("PYOCO_DLQ") == letters
        assert await stack.message_count("PYOCO_WORK") == jobs
        worker.resume()
        ended = await stack.client.wait(run_id)
        await eventually(lambda: stack.message_count("PYOCO_WORK"), 0)
        assert await stack.client.get(run_id) == ended
    assert ended["status"] == ("FAILED" if flow == "fail" else "COMPLETED")
    assert await stack.message_count("PYOCO_DLQ") == (1 if flow == "fail" else 0)
