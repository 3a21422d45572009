"""Executes one flow with the Pyoco engine. No other module of the worker imports `pyoco`."""

import contextlib
import io
import threading
import time
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
from pyoco_protocol.workflows.document import TaskPlan
from pyoco_protocol.workflows.graph_rules import GraphLanguage
from pyoco_protocol.workflows.operators import StepGraph
from pyoco_protocol.workflows.problems import WorkflowInvalidError
from pyoco_worker.child.callable_policy import CallablePolicy
from pyoco_worker.child.error_text import error_text, traceback_text
from pyoco_worker.child.frames import Finished, FinishedHow, Progress, RunOrder, TaskChanged
from pyoco_worker.child.limits import ChildLimits, make_room_for_report
from pyoco_worker.child.resolver import FlowResolver
from pyoco_worker.child.results import last_tasks, result_of
from pyoco_worker.child.running_tasks import RunningTasks
from pyoco_worker.child.task_records import smallest_records, task_records
from pyoco_worker.child.workflow import CallableRefusedError, WorkflowLoader

# Shorter than the time after which the parent asks for the task states.
_QUIET_SEC: Final = 0.1

_DEFAULT_POLICY: Final = CallablePolicy(None)
_NO_LIMITS: Final = ChildLimits()

Send = Callable[[Progress | TaskChanged], None]


class EngineRun:
    """One run of one flow. Another thread may call `cancel` at any time."""

    def __init__(
        self,
        order: RunOrder,
        *,
        max_record_bytes: int,
        send: Send,
        running: RunningTasks | None = None,
        limits: ChildLimits = _NO_LIMITS,
    ) -> None:
        self._order = order
        self._max_record_bytes = max_record_bytes
        self._limits = limits
        self._reports = _TaskReports(order, send, running or RunningTasks())
        self._last_tasks: tuple[str, ...] = ()
        self._context = _RunContext(run_id=order.run_id)
        # `Engine.cancel` does nothing before the engine knows the run, and can overwrite a final
        # status afterwards. The lock and `_ended` prevent both.
        self._lock = threading.Lock()
        self._ended = False

    def cancel(self) -> None:
        """Stop the flow before its next task; running tasks see `ctx.is_cancelled`."""
        with self._lock:
            self._context.is_cancel_requested = True
            if not self._ended and self._context.status is EngineStatus.RUNNING:
                self._context.status = EngineStatus.CANCELLING

    def report_progress(self) -> None:
        """Send the states of all tasks; may be called from another thread."""
        self._reports.report_all()

    def execute(self, resolve: FlowResolver, policy: CallablePolicy = _DEFAULT_POLICY) -> Finished:
        """Return how the flow ended; never raises, because errors of user code are outcomes."""
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
        except BaseException as error:  # noqa: BLE001 - user code: fails the run, not the child
            return self._finished("failed", error)
        if not isinstance(flow, Flow):
            found = TypeError(f"the resolver returned {type(flow).__name__}, not a pyoco Flow")
            return self._finished("failed", found)
        if not flow.has_control_flow() and (chain := _chain_of(flow)) is not None:
            # The engine's sequential path gives the same order and results for a fraction of the
            # cost: no thread pool, and a cancel is checked between tasks.
            flow._definition = [TaskNode(task) for task in chain]
            flow._has_control_flow = True
        self._reports.begin(task.name for task in flow.tasks)
        self._last_tasks = last_tasks(flow)
        failure: BaseException | None = None
        try:
            _Engine(self._reports).run(flow, params, run_context=self._context)
        except BaseException as error:  # noqa: BLE001 - user code: SystemExit fails the run only
            failure = error
        with self._lock:
            self._ended = True
        return self._finished(self._how(failure), failure)

    def _how(self, failure: BaseException | None) -> FinishedHow:
        if failure is not None:
            return "failed"
        # After a cancel during the last task the status stays CANCELLING, because the engine does
        # not check again. If all tasks succeeded, the flow has succeeded.
        if self._context.status is EngineStatus.COMPLETED:
            return "succeeded"
        if all(state is TaskState.SUCCEEDED for state in self._context.tasks.values()):
            return "succeeded"
        return "stopped"

    def _finished(self, how: FinishedHow, failure: BaseException | None) -> Finished:
        self._reports.end()
        limit = self._limits.behind(failure) if how == "failed" and failure is not None else None
        if limit is not None:
            make_room_for_report(self._limits)
            how = "limit_exceeded"
        records = task_records(self._context.task_records, self._state, self._max_record_bytes)
        kept = smallest_records(records.all, self._max_record_bytes)
        result, result_truncated = None, False
        if how == "succeeded":
            result, result_truncated = result_of(self._last_tasks, records.all, self._state)
        return Finished(
            run_id=self._order.run_id,
            secret=self._order.secret,
            how=how,
            error=self._limits.sentence(limit) if limit else _text_of(failure),
            traceback=None if failure is None else traceback_text(failure),
            tasks={name: self._state(name) for name in self._context.tasks},
            records=kept,
            records_truncated=records.is_truncated or len(kept) < len(records.all),
            result=result,
            result_truncated=result_truncated,
        )

    def _state(self, name: str) -> TaskStatus:
        return TaskStatus(self._context.tasks[name].value)


def _text_of(failure: BaseException | None) -> str | None:
    return None if failure is None else error_text(failure)


class FlowMissingError(Exception):
    """The resolver has no flow of this name."""


def _resolved(resolve: FlowResolver, flow_name: str) -> object:
    try:
        return resolve(flow_name)
    except KeyError as error:
        raise FlowMissingError(flow_name) from error


def _flow_of(
    text: str, flow_name: str, policy: CallablePolicy
) -> tuple[object, dict[str, JsonValue]]:
    """Return the flow that a workflow file describes, and its default params."""
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
    if workflow.steps is not None:
        return _flow_of_steps(workflow.steps, tasks, flow_name), document.defaults
    pipes = {name: pipe.value for name, pipe in document.pipes.items()}
    flow = build_flow_from_graph(
        graph=document.graph.value, tasks=tasks, pipes=pipes, flow_name=flow_name
    )
    return flow, document.defaults


def _flow_of_steps(steps: StepGraph, tasks: Mapping[str, Task], flow_name: str) -> Flow:
    """Return the flow of a graph in operator form; the engine has no parser for it."""
    flow = Flow(name=flow_name)
    for name in steps.positions:
        flow.add_task(tasks[name])
    for name, before in steps.after.items():
        task = tasks[name]
        for each in before:
            task.dependencies.add(tasks[each])
            tasks[each].dependents.add(task)
        if name in steps.any_of:
            task.trigger_policy = "ANY"
    return flow


def _plugin_tasks(plans: list[TaskPlan]) -> dict[str, Task]:
    """Return the tasks that installed plug-ins provide; loading calls every plug-in."""
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
    # The loader prints what it cannot load, which must not appear in the output of the run.
    with contextlib.redirect_stdout(io.StringIO()):
        loader.load()
    return {plan.name: loader.tasks[plan.name] for plan in plans}


def _build_without_tasks(graph: str, tasks: Iterable[str], pipes: Mapping[str, str]) -> object:
    dummies = {name: Task(func=_nothing, name=name) for name in tasks}
    return build_flow_from_graph(graph=graph, tasks=dummies, pipes=dict(pipes))


def _nothing() -> None:
    """Do nothing: the function of dummy tasks in a graph that is only checked."""


def _unwrapped(held: object) -> object:
    """Return the function behind an attribute of a module, which `@task` replaces by a wrapper."""
    if isinstance(held, TaskWrapper):
        held = held.task
    return held.func if isinstance(held, Task) else held


def _chain_of(flow: Flow) -> list[Task] | None:
    """Return the tasks in order if the flow is a chain that can run sequentially; else None.

    The engine's sequential path ignores timeouts, isolation and joins, so a flow that uses one of
    them keeps the thread pool. So does a flow whose recorded steps differ from its tasks in the
    order of their edges.
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


class _RunContext(RunContext):  # type: ignore[misc] # pyoco has no type information
    """The state of a run, and whether it was cancelled."""

    is_cancel_requested = False


class _Context(Context):  # type: ignore[misc] # pyoco has no type information
    """The context of the tasks. A cancel stays visible after a parallel task has failed.

    The engine reads it from the status of the run, which the first failure overwrites.
    """

    @property
    def is_cancelled(self) -> bool:
        """Return whether the run was cancelled."""
        return bool(self.run_context.is_cancel_requested)


class _Engine(Engine):  # type: ignore[misc] # pyoco has no type information
    """The engine without its capture of output.

    The engine replaces `sys.stdout` for each run and keeps all output in memory until the run has
    ended. StdioCapture sends output to the parent at once instead.
    """

    def run(
        self, flow: Flow, params: dict[str, Any] | None = None, run_context: Any = None
    ) -> Context:
        """Run the flow as `Engine.run` does, without capturing output."""
        run_context.flow_name = flow.name
        run_context.params = params or {}
        for task in flow.tasks:
            run_context.tasks[task.name] = TaskState.PENDING
            run_context.ensure_task_record(task.name)
        context = _Context(params=run_context.params, run_context=run_context)
        self.trace.on_flow_start(flow.name, run_id=run_context.run_id)
        self.active_runs[run_context.run_id] = run_context
        return self._run_flow(flow, context, run_context, None)


class _TaskReports(TraceBackend):  # type: ignore[misc] # pyoco has no type information
    """Keeps the task states and reports changes to the parent.

    The engine's threads call it before the engine updates its own states.
    """

    def __init__(self, order: RunOrder, send: Send, running: RunningTasks) -> None:
        self._run_id = order.run_id
        self._secret = order.secret
        self._send = send
        self._running = running
        self._lock = threading.Lock()
        self._states: dict[str, TaskStatus] = {}
        # Until then, ends of tasks are not reported: most runs end sooner, and `Finished` has them.
        self._quiet_until = time.monotonic() + _QUIET_SEC
        self._ended = False

    def begin(self, tasks: Iterable[str]) -> None:
        """Set all tasks to PENDING."""
        self._states = dict.fromkeys(tasks, TaskStatus.PENDING)

    def report_all(self) -> None:
        """Send the states of all tasks; from now on every change is sent."""
        with self._lock:
            self._quiet_until = 0.0
            if not self._ended:
                tasks = dict(self._states)
                self._send(Progress(run_id=self._run_id, secret=self._secret, tasks=tasks))

    def end(self) -> None:
        """Send nothing more: a task with a timeout can go on after its run has ended."""
        with self._lock:
            self._ended = True

    def on_flow_start(self, name: str, run_id: str | None = None) -> None:
        """Do nothing: the parent has started the flow."""

    def on_flow_end(self, name: str) -> None:
        """Do nothing: `Finished` follows."""

    def on_node_start(self, node_name: str) -> None:
        """Report a task as RUNNING."""
        self._running.started(node_name)
        self._report(node_name, TaskStatus.RUNNING)

    def on_node_end(self, node_name: str, duration_ms: float) -> None:
        """Report a task as SUCCEEDED."""
        self._running.ended()
        self._report(node_name, TaskStatus.SUCCEEDED)

    def on_node_error(self, node_name: str, error: Exception) -> None:
        """Report a task as FAILED."""
        self._running.ended()
        self._report(node_name, TaskStatus.FAILED)

    def _report(self, task: str, state: TaskStatus) -> None:
        with self._lock:
            self._states[task] = state
            # A start is sent at once: if the child dies, the worker knows which task was running.
            is_due = state is TaskStatus.RUNNING or time.monotonic() >= self._quiet_until
            if is_due and not self._ended:
                self._send(
                    TaskChanged(run_id=self._run_id, secret=self._secret, task=task, state=state)
                )
