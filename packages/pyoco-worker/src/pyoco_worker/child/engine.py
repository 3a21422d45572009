"""Runs one flow with the Pyoco engine; the only module that imports it."""

import contextlib
import io
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pydantic import JsonValue
from pyoco.core.context import Context
from pyoco.core.engine import Engine
from pyoco.core.models import Flow, RunContext, Task, TaskState
from pyoco.core.models import RunStatus as EngineStatus
from pyoco.discovery.loader import TaskLoader
from pyoco.dsl.graph import build_flow_from_graph, parse_graph
from pyoco.dsl.nodes import TaskNode
from pyoco.dsl.syntax import TaskWrapper
from pyoco.schemas.config import FlowConfig, PyocoConfig, TaskConfig
from pyoco.trace.backend import TraceBackend

from pyoco_protocol.runs.lifecycle import TaskStatus
from pyoco_protocol.runs.snapshot import TaskRecord
from pyoco_protocol.workflows.document import TaskPlan
from pyoco_protocol.workflows.graph_rules import GraphLanguage
from pyoco_protocol.workflows.problems import WorkflowInvalidError
from pyoco_worker.child.callable_policy import CallablePolicy
from pyoco_worker.child.frames import Finished, FinishedHow, Progress, RunOrder, TaskChanged
from pyoco_worker.child.printing import RunningTasks
from pyoco_worker.child.resolver import FlowResolver
from pyoco_worker.child.results import last_tasks, result_of
from pyoco_worker.child.values import TooLargeError, safe_text, to_json
from pyoco_worker.child.workflow import CallableRefusedError, WorkflowLoader

_MAX_ERROR_CHARS: Final = 4_000
_MAX_TRACEBACK_CHARS: Final = 16_000

# Below the time after which the parent asks for itself.
_QUIET_SEC: Final = 0.1

_OWN_RULE: Final = CallablePolicy(None)

Send = Callable[[Progress | TaskChanged], None]


class EngineRun:
    """One run of one flow. `cancel` may be called from another thread at any time."""

    def __init__(
        self,
        order: RunOrder,
        *,
        max_record_bytes: int,
        send: Send,
        running: RunningTasks | None = None,
    ) -> None:
        self._order = order
        self._max_record_bytes = max_record_bytes
        self._reports = _TaskReports(order.run_id, send, running or RunningTasks())
        self._last_tasks: tuple[str, ...] = ()
        self._context = RunContext(run_id=order.run_id)
        # The engine's own cancel is lost before the run is registered and overwrites a status
        # that was final; a lock around "still running?" closes both gaps.
        self._lock = threading.Lock()
        self._over = False

    def cancel(self) -> None:
        """Ask the flow to stop at its next task; running tasks see `ctx.is_cancelled`."""
        with self._lock:
            if not self._over and self._context.status is EngineStatus.RUNNING:
                self._context.status = EngineStatus.CANCELLING

    def tell_progress(self) -> None:
        """Send where all tasks stand; may be called from another thread."""
        self._reports.tell()

    def execute(self, resolve: FlowResolver, policy: CallablePolicy = _OWN_RULE) -> Finished:
        """Return how the flow ended; never raises, whatever user code does."""
        params = dict(self._order.params)
        try:
            if self._order.workflow_yaml is None:
                flow = _resolved(resolve, self._order.flow_name)
            else:
                flow, defaults = _flow_of(self._order.workflow_yaml, self._order.flow_name, policy)
                params = {**defaults, **params}
        except FlowMissingError as error:
            return self._finished("flow_not_found", error.__cause__)
        except WorkflowInvalidError as error:
            return self._finished("workflow_invalid", error)
        except CallableRefusedError as error:
            return self._finished("callable_refused", error)
        except BaseException as error:  # noqa: BLE001 - user code: a failed run, not a dead child
            return self._finished("failed", error)
        if not isinstance(flow, Flow):
            found = TypeError(f"the resolver returned {type(flow).__name__}, not a pyoco Flow")
            return self._finished("failed", found)
        if not flow.has_control_flow() and (chain := _chain_of(flow)) is not None:
            # Same order, same results, a fraction of the cost: no thread pool for one task after
            # another, and a cancel is looked for between any two of them.
            flow._definition = [TaskNode(task) for task in chain]
            flow._has_control_flow = True
        self._reports.begin(task.name for task in flow.tasks)
        self._last_tasks = last_tasks(flow)
        failure: BaseException | None = None
        try:
            _Engine(self._reports).run(flow, params, run_context=self._context)
        except BaseException as error:  # noqa: BLE001 - user code: SystemExit ends its run only
            failure = error
        with self._lock:
            self._over = True
        return self._finished(self._how(failure), failure)

    def _how(self, failure: BaseException | None) -> FinishedHow:
        if failure is not None:
            return "failed"
        # A cancel during the last task leaves CANCELLING: the engine never looks again. Where
        # every task has succeeded all the same, the flow itself did succeed.
        if self._context.status is EngineStatus.COMPLETED:
            return "succeeded"
        if all(state is TaskState.SUCCEEDED for state in self._context.tasks.values()):
            return "succeeded"
        return "stopped"

    def _finished(self, how: FinishedHow, failure: BaseException | None) -> Finished:
        records: dict[str, TaskRecord] = {}
        truncated = False
        for name, record in self._context.task_records.items():
            try:
                records[name] = self._record(name, record)
            except TooLargeError:
                truncated = True
            except BaseException as error:  # noqa: BLE001 - values of user classes may do anything
                records[name] = TaskRecord(
                    state=self._state(name), error=f"the record cannot be read: {safe_text(error)}"
                )
        kept = _smallest(records, self._max_record_bytes)
        result, result_truncated = None, False
        if how == "succeeded":
            result, result_truncated = result_of(self._last_tasks, records, self._state)
        return Finished(
            run_id=self._order.run_id,
            how=how,
            error=None if failure is None else described(failure),
            traceback=None if failure is None else _traceback_of(failure),
            tasks={name: self._state(name) for name in self._context.tasks},
            records=kept,
            records_truncated=truncated or len(kept) < len(records),
            result=result,
            result_truncated=result_truncated,
        )

    def _state(self, name: str) -> TaskStatus:
        return TaskStatus(self._context.tasks[name].value)

    def _record(self, name: str, record: Any) -> TaskRecord:
        # What one record may take at most; the parent fits the whole snapshot.
        inputs = to_json(record.inputs, max_bytes=self._max_record_bytes)
        output = to_json(record.output, max_bytes=self._max_record_bytes)
        failed = self._state(name) is TaskStatus.FAILED
        return TaskRecord(
            state=self._state(name),
            started_at=record.started_at,
            ended_at=record.ended_at,
            duration_ms=record.duration_ms,
            inputs=inputs or None,
            output=output,
            # The engine keeps the error of an earlier attempt after a retry has succeeded.
            error=_limited(record.error, _MAX_ERROR_CHARS) if failed else None,
            traceback=_limited(record.traceback, _MAX_TRACEBACK_CHARS) if failed else None,
        )


class FlowMissingError(Exception):
    """The resolver knows no flow of this name."""


def _resolved(resolve: FlowResolver, flow_name: str) -> object:
    try:
        return resolve(flow_name)
    except KeyError as error:
        raise FlowMissingError(flow_name) from error


def _flow_of(
    text: str, flow_name: str, policy: CallablePolicy
) -> tuple[object, dict[str, JsonValue]]:
    """Return the flow that a workflow file describes, and the params it brings."""
    loader = WorkflowLoader(policy, GraphLanguage(parse_graph, _build_without_tasks), _unwrapped)
    workflow, found = loader.load(text)
    document = workflow.document
    tasks = _plugin_tasks([each.plan for each in found if each.plan.use is not None])
    for each in found:
        if each.found is not None:
            tasks[each.plan.name] = Task(
                func=each.found,
                name=each.plan.name,
                inputs=dict(each.plan.inputs),
                outputs=list(each.plan.outputs),
            )
    pipes = {name: pipe.value for name, pipe in document.pipes.items()}
    flow = build_flow_from_graph(
        graph=document.graph.value, tasks=tasks, pipes=pipes, flow_name=flow_name
    )
    return flow, document.defaults


def _plugin_tasks(plans: list[TaskPlan]) -> dict[str, Task]:
    """Return the tasks that plug-ins installed here provide; asking them calls each of them."""
    if not plans:
        return {}
    config = PyocoConfig(
        version=1,
        flow=FlowConfig(graph=""),
        tasks={
            plan.name: TaskConfig(
                use=plan.use, inputs=dict(plan.inputs), outputs=list(plan.outputs)
            )
            for plan in plans
        },
    )
    loader = TaskLoader(config)
    # It says on stdout what it cannot load, and that is the run's own.
    with contextlib.redirect_stdout(io.StringIO()):
        loader.load()
    return {plan.name: loader.tasks[plan.name] for plan in plans}


def _build_without_tasks(graph: str, tasks: Iterable[str], pipes: Mapping[str, str]) -> object:
    dummies = {name: Task(func=_nothing, name=name) for name in tasks}
    return build_flow_from_graph(graph=graph, tasks=dummies, pipes=dict(pipes))


def _nothing() -> None:
    """Stand where a task would, while a graph is only looked at."""


def _unwrapped(held: object) -> object:
    """Return the function in what a module holds: `@task` puts an object of the engine there."""
    if isinstance(held, TaskWrapper):
        held = held.task
    return held.func if isinstance(held, Task) else held


def _smallest(records: dict[str, TaskRecord], max_bytes: int) -> dict[str, TaskRecord]:
    """Return as many records as fit into `max_bytes`, which is all that a snapshot can hold.

    The parent would drop the others itself, but all records of a large flow are more than a
    frame can carry.
    """
    if len(records) == 1:
        return records
    sizes = {
        name: len(record.model_dump_json(exclude_none=True)) for name, record in records.items()
    }
    left, kept = max_bytes, set[str]()
    for name in sorted(sizes, key=sizes.__getitem__):
        left -= sizes[name]
        if left < 0:
            break
        kept.add(name)
    return {name: record for name, record in records.items() if name in kept}


def _chain_of(flow: Flow) -> list[Task] | None:
    """Return the tasks one after another where the engine's sequential path does the same.

    That path ignores timeouts, isolation and joins, so a flow that uses one of them keeps the
    thread pool; so does one whose recorded steps are not its tasks in the order of their edges.
    """
    follows: dict[str, Task] = {}
    first: Task | None = None
    for task in flow.tasks:
        if task.timeout_sec is not None or task.fail_policy == "isolate":
            return None
        if not task.dependencies and first is None:
            first = task
        elif len(task.dependencies) == 1:
            follows[next(iter(task.dependencies)).name] = task
        else:
            return None
    chain: list[Task] = []
    step = first
    while step is not None and len(chain) < len(flow.tasks):
        chain.append(step)
        step = follows.get(step.name)
    recorded = [getattr(node, "task", None) for node in flow._definition]
    if len(chain) != len(flow.tasks) or (recorded and recorded != chain):
        return None
    return chain


class _Engine(Engine):  # type: ignore[misc] # pyoco has no type information
    """The engine, less its capture of what tasks print.

    That one swaps `sys.stdout` for each run, and keeps all that is printed in memory until the
    run is over. We hear of it as it is printed.
    """

    def run(
        self, flow: Flow, params: dict[str, Any] | None = None, run_context: Any = None
    ) -> Context:
        """Run the flow; as the engine does, but for the capture."""
        run_context.flow_name = flow.name
        run_context.params = params or {}
        for task in flow.tasks:
            run_context.tasks[task.name] = TaskState.PENDING
            run_context.ensure_task_record(task.name)
        context = Context(params=run_context.params, run_context=run_context)
        self.trace.on_flow_start(flow.name, run_id=run_context.run_id)
        self.active_runs[run_context.run_id] = run_context
        return self._run_flow(flow, context, run_context, None)


class _TaskReports(TraceBackend):  # type: ignore[misc] # pyoco has no type information
    """Keeps where the tasks stand, and tells the parent: all of it once the run is not short.

    Called from the engine's threads, before it updates its own states.
    """

    def __init__(self, run_id: str, send: Send, running: RunningTasks) -> None:
        self._run_id = run_id
        self._send = send
        self._running = running
        self._lock = threading.Lock()
        self._states: dict[str, TaskStatus] = {}
        # Most runs are over before anybody could look at how each task ended.
        self._quiet_until = time.monotonic() + _QUIET_SEC

    def begin(self, tasks: Iterable[str]) -> None:
        """Know the tasks before any of them runs."""
        self._states = dict.fromkeys(tasks, TaskStatus.PENDING)

    def tell(self) -> None:
        """Send where all tasks stand; from now on every change is sent."""
        with self._lock:
            self._quiet_until = 0.0
            self._send(Progress(run_id=self._run_id, tasks=dict(self._states)))

    def on_flow_start(self, name: str, run_id: str | None = None) -> None:
        """Nothing to say: the parent knows."""

    def on_flow_end(self, name: str) -> None:
        """Nothing to say: `Finished` follows."""

    def on_node_start(self, node_name: str) -> None:
        """Report a task that runs."""
        self._running.began(node_name)
        self._report(node_name, TaskStatus.RUNNING)

    def on_node_end(self, node_name: str, duration_ms: float) -> None:
        """Report a task that succeeded."""
        self._running.over()
        self._report(node_name, TaskStatus.SUCCEEDED)

    def on_node_error(self, node_name: str, error: Exception) -> None:
        """Report a task that failed."""
        self._running.over()
        self._report(node_name, TaskStatus.FAILED)

    def _report(self, task: str, state: TaskStatus) -> None:
        with self._lock:
            self._states[task] = state
            # A start is told at once: if the child dies, it says which task took it along.
            if state is TaskStatus.RUNNING or time.monotonic() >= self._quiet_until:
                self._send(TaskChanged(run_id=self._run_id, task=task, state=state))


def described(error: BaseException) -> str:
    """Return an exception as one text: its class and what it says."""
    try:
        said = str(error)
    except BaseException as broken:  # noqa: BLE001 - a user exception whose text cannot be had
        said = f"<no text: {type(broken).__name__}>"
    return _limited(f"{type(error).__name__}: {said}", _MAX_ERROR_CHARS) or type(error).__name__


def _traceback_of(error: BaseException) -> str | None:
    try:
        lines = traceback.format_exception(error)
    except BaseException:  # noqa: BLE001 - formatting calls user code (`__str__`) again
        return None
    return _limited("".join(lines), _MAX_TRACEBACK_CHARS)


def _limited(text: str | None, max_chars: int) -> str | None:
    """Return the end of a text that is too long: in a traceback the end tells most."""
    if text is None:
        return None
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return clean if len(clean) <= max_chars else "…" + clean[-max_chars:]
