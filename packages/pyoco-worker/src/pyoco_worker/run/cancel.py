"""The worker's part of a cancel. A cancel of an active run takes this path:

1. `listen_for_cancels` hears the gateway's announcement and writes the run's record at once. The
   announcement can be lost; the next heartbeat then takes its place.
2. `run.record`: the write conflicts with the gateway's write of the cancel, so the record is read
   again and shows the cancel.
3. `stop_run` asks the flow to stop through `children.child_process`, and kills the child after
   the grace period.
4. `child.__main__` passes the request to `child.engine`, where tasks see `ctx.is_cancelled`.
5. `run.execute` stores the end of the run, which is CANCELLED however the flow ended.

`claim.rules` handles a run that is cancelled before a worker claims it.
"""

import logging
from collections.abc import Iterable

import anyio

from pyoco_protocol.jetstream.cancel_hints import subscribe_to_cancels
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import CancelTimeoutError
from pyoco_worker.run.active_runs import ActiveRun
from pyoco_worker.run.heartbeats import HeartbeatLoop

_log = logging.getLogger(__name__)


async def listen_for_cancels(
    broker: Broker, tags: Iterable[str], heartbeats: HeartbeatLoop
) -> None:
    """Check the record of an active run as soon as its cancel is announced."""
    await subscribe_to_cancels(broker, tags, heartbeats.write_now)


async def stop_run(run: ActiveRun, grace_sec: float) -> None:
    """Ask the flow of a cancelled run to stop; kill its child after `grace_sec`."""
    if run.child is not None:
        run.child.ask_to_cancel(run.run_id)
    with anyio.move_on_after(grace_sec):
        await run.ended.wait()
    if run.ended.is_set() or run.child is None:
        return
    failure = CancelTimeoutError(run.run_id, grace_sec)
    _log.warning("run did not stop by itself and is killed", extra=error_fields(failure))
    await run.child.kill()
