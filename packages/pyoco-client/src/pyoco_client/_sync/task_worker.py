"""A worker that executes Task nodes over HTTP."""

import logging
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any, Final, Protocol

from pyoco_client import execution_calls
from pyoco_client._sync.client import Client
from pyoco_client._sync.node_handle import NodeHandle
from pyoco_client._sync.pages import all_items
from pyoco_client._sync.sleep import sleep
from pyoco_client._sync.task import Task
from pyoco_client._sync.task_report import TaskReport
from pyoco_client.crews import Crew
from pyoco_client.errors import NotFoundError, PyocoError
from pyoco_client.execution_errors import CommandRejectedError, TaskCancelledError
from pyoco_client.execution_models import Execution, OpenNode, OpenNodePage
from pyoco_client.http_call import Call
from pyoco_client.retry_rules import is_passing
from pyoco_client.task_attempts import new_worker_id

logger = logging.getLogger(__name__)

# How long the gateway waits for a ready task; `stop` takes up to this time.
_POLL_SEC: Final = 5
_PAGE: Final = 100
# The shortest time from one request to the next if there was no task for this worker.
_PAUSE_SEC: Final = 1.0
# The code with which the gateway recognises an interrupted attempt that has stopped.
_STOPPED: Final = "RUN_CANCELED"


class TaskFunction(Protocol):
    """Executes a task; returns its output, or None for an empty one."""

    def __call__(self, task: Task, /) -> Mapping[str, Any] | None:
        """Return the output of the task; an exception is the failure of the attempt."""


class TaskWorker:
    """Claims Task nodes without a `run`, calls `function` with each, and reports its result.

    It takes tasks of one graph, or of all graphs without `graph_id`; with `nodes`, only those of
    these nodes. `concurrency` tasks are in work at the same time. A dict, or None, is the output of
    the node. An exception fails the attempt: its class name is the error code, and `retryable`
    on it, if False, excludes another attempt.

    Nothing prolongs an attempt, and no other worker takes over a claimed one: if the worker dies,
    only `timeoutSec` of the node ends its attempts. Give such nodes a `timeoutSec`.
    """

    def __init__(
        self,
        client: Client,
        function: TaskFunction,
        *,
        graph_id: str | None = None,
        nodes: Collection[str] | None = None,
        concurrency: int = 1,
        worker_id: str | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        if isinstance(nodes, str):
            nodes = (nodes,)
        self.worker_id = new_worker_id() if worker_id is None else worker_id
        self._transport = client._transport
        self._patience = client._patience
        self._function = function
        self._graph_id = graph_id
        self._nodes = None if nodes is None else frozenset(nodes)
        self._concurrency = concurrency
        self._stops = False

    def stop(self) -> None:
        """Take no more tasks; `run` returns when those in work are reported.

        It may be called in a signal handler.
        """
        self._stops = True

    def run(self) -> None:
        """Execute tasks until `stop`; raise PyocoError if the gateway refuses the requests.

        A gateway that is down does not end the worker.
        """
        refusal: PyocoError | None = None
        with Crew(self._concurrency) as crew:
            try:
                while not self._stops:
                    self._take_tasks(crew)
            except PyocoError as error:
                # Raised after the tasks in work are reported.
                refusal = error
        if refusal is not None:
            raise refusal

    def _take_tasks(self, crew: Crew) -> None:
        """Claim ready tasks for the members of the crew that are free, at least one."""
        crew.reserve()
        if self._stops:
            return
        has_room, claimed = True, 0
        asked_at = time.monotonic()
        items = all_items(self._transport, OpenNodePage, self._ready)
        try:
            with closing(items) as ready:
                for item in ready:
                    if self._nodes is not None and item.node_id not in self._nodes:
                        continue
                    has_room = has_room or crew.try_reserve()
                    if not has_room or self._stops:
                        break
                    if self._claim(item):
                        has_room = False
                        claimed += 1
                        crew.begin(self._execute, item)
        except PyocoError as error:
            if not is_passing(error):
                raise
            logger.warning("no answer about ready tasks", extra={"error": str(error)})
        finally:
            if has_room:
                crew.release()
        if not claimed and not self._stops:
            # All ready tasks are for other workers, or there was no answer: do not ask at once.
            sleep(max(asked_at + _PAUSE_SEC - time.monotonic(), 0.0))

    def _ready(self, cursor: str | None) -> Call:
        """Return the request for ready tasks, which waits a short time if there are none."""
        return execution_calls.ready_tasks(
            self._graph_id,
            wait_sec=_POLL_SEC if cursor is None else None,
            limit=_PAGE,
            cursor=cursor,
        )

    def _claim(self, item: OpenNode) -> bool:
        """Start the attempt; return whether it is now ours."""
        node = self._node(item)
        try:
            answer = node.start(attempt=item.attempt, worker_id=self.worker_id)
        except (CommandRejectedError, NotFoundError):
            # Another worker was faster, or the execution has ended.
            return False
        # Without an effect, another process with this worker id has the attempt.
        return answer.effect == "APPLIED"

    def _node(self, item: OpenNode) -> NodeHandle:
        # Claims and reports get more time than other calls: a claim that was committed without an
        # answer, or a result that was not reported, would block the node until its timeout.
        return NodeHandle(self._transport, item.execution_id, item.node_id, deadline=self._patience)

    def _execute(self, item: OpenNode) -> None:
        report = TaskReport(self._node(item), item.attempt, self.worker_id)
        try:
            task = Task(self._transport, item, self._state(item), self.worker_id)
            output = self._function(task)
            if output is not None and not isinstance(output, Mapping):
                raise TypeError(f"a task returns a dict or None, not {type(output).__name__}")
        except TaskCancelledError as error:
            report.failure(_STOPPED, error, retryable=False)
        except (Exception, SystemExit) as error:
            logger.warning("task failed", exc_info=error, extra=report.fields)
            retryable = getattr(error, "retryable", True) is not False
            report.failure(type(error).__name__, error, retryable=retryable)
        else:
            report.success(output)

    def _state(self, item: OpenNode) -> Execution:
        call = execution_calls.execution(item.execution_id, include_values=True)
        answer = self._transport.ask(call, deadline=self._patience)
        return answer.read_as(Execution)
