"""Runs of flows with the real engine, sequentially and with the thread pool."""

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyoco import task
from pyoco.core.engine import Engine
from pyoco.core.models import Flow, RunContext, Task
from pyoco.trace.backend import TraceBackend

from pyoco_protocol.ids import new_run_id
from pyoco_protocol.runs.lifecycle import TaskStatus
from pyoco_testkit.eventually import eventually
from pyoco_worker.child.engine import EngineRun, _Engine
from pyoco_worker.child.frames import Finished, Progress, RunOrder, TaskChanged


def run_of(flow_name: str = "flow", **params: Any) -> EngineRun:
    order = RunOrder(run_id=new_run_id(), attempt=1, flow_name=flow_name, params=params)
    return EngineRun(order, max_record_bytes=100_000, send=lambda _: None)


def chain(*steps: Callable[..., object], **options: Any) -> Flow:
    flow = Flow(name="flow")
    for step in steps:
        wrapped = task(step)
        for name, value in options.items():
            setattr(wrapped.task, name, value)
        flow >> wrapped
    return flow


def first() -> int:
    return 1


def second(first: int) -> int:
    return first + 1


def third(ctx: Any, second: int) -> int:
    return int(second + ctx.params["x"])


def breaks() -> None:
    raise ValueError("broken")


@pytest.fixture(params=["sequential", "thread pool"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Run chains on both paths of the engine, which must give the same results."""
    # A timeout, even one that is never reached, makes the engine use its thread pool.
    return {"timeout_sec": 60.0} if request.param == "thread pool" else {}


class Silent(TraceBackend):  # type: ignore[misc] # pyoco has no type information
    """A trace backend that does nothing."""

    def on_flow_start(self, name: str, run_id: str | None = None) -> None: ...
    def on_flow_end(self, name: str) -> None: ...
    def on_node_start(self, node_name: str) -> None: ...
    def on_node_end(self, node_name: str, duration_ms: float) -> None: ...
    def on_node_error(self, node_name: str, error: Exception) -> None: ...


def execute(flow: Flow, **params: Any) -> Finished:
    return run_of(**params).execute(lambda _: flow)


def test_a_task_of_a_chain_gets_the_results_of_earlier_tasks(options: dict[str, Any]) -> None:
    finished = execute(chain(first, second, third, **options), x=10)
    assert (finished.how, finished.error) == ("succeeded", None)
    assert {name: record.output for name, record in finished.records.items()} == {
        "first": 1,
        "second": 2,
        "third": 12,
    }


def test_a_chain_stops_at_the_task_that_fails(options: dict[str, Any]) -> None:
    finished = execute(chain(first, breaks, second, **options))
    assert (finished.how, finished.error) == ("failed", "ValueError: broken")
    assert finished.tasks == {
        "first": TaskStatus.SUCCEEDED,
        "breaks": TaskStatus.FAILED,
        "second": TaskStatus.PENDING,
    }
    assert "broken" in (finished.records["breaks"].traceback or "")


def test_a_task_that_succeeds_after_a_retry_has_no_error(options: dict[str, Any]) -> None:
    tries: list[int] = []

    def flaky() -> int:
        tries.append(1)
        if len(tries) < 2:
            raise ValueError("not yet")
        return len(tries)

    finished = execute(chain(flaky, retries=2, **options))
    assert finished.how == "succeeded"
    assert (finished.records["flaky"].output, finished.records["flaky"].error) == (2, None)


def test_a_cancel_before_the_first_task_runs_none(options: dict[str, Any]) -> None:
    ran: list[int] = []
    run = run_of()
    run.cancel()
    finished = run.execute(lambda _: chain(lambda: ran.append(1), first, **options))
    assert (finished.how, ran) == ("stopped", [])
    assert set(finished.tasks.values()) == {TaskStatus.CANCELLED}


def test_a_cancel_between_two_tasks_stops_the_second(options: dict[str, Any]) -> None:
    run = run_of()
    finished = run.execute(lambda _: chain(run.cancel, first, **options))
    assert finished.how == "stopped"
    assert finished.tasks["first"] is TaskStatus.CANCELLED


def test_a_cancel_during_the_last_task_does_not_fail_the_flow(options: dict[str, Any]) -> None:
    run = run_of()

    def last(ctx: Any) -> bool:
        run.cancel()
        return bool(ctx.is_cancelled)

    finished = run.execute(lambda _: chain(first, last, **options))
    assert finished.how in ("succeeded", "stopped")
    assert finished.records["last"].output is True


def test_a_cancel_stays_visible_to_a_task_beside_one_that_failed() -> None:
    run = run_of()

    def stops() -> None:
        run.cancel()
        raise RuntimeError("cancelled")

    def beside(ctx: Any) -> bool:
        # The engine overwrites the status of the run when `stops` has failed.
        asyncio.run(eventually(lambda: ctx.run_context.status.name, "FAILED"))
        return bool(ctx.is_cancelled)

    flow = Flow(name="flow")
    flow >> [task(stops), task(beside)]
    finished = run.execute(lambda _: flow)
    assert finished.records["beside"].output is True


def test_a_cancel_after_the_end_changes_nothing(options: dict[str, Any]) -> None:
    run = run_of()
    finished = run.execute(lambda _: chain(first, **options))
    run.cancel()
    assert finished.how == "succeeded"


def test_a_flow_can_be_run_repeatedly() -> None:
    flow = chain(first, second)
    assert [execute(flow).how for _ in range(3)] == ["succeeded"] * 3


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def isolated() -> Flow:
    flow = Flow(name="flow")
    flow.add_task(Task(func=breaks, name="breaks", fail_policy="isolate"))
    flow.add_task(Task(func=in_main_thread, name="in_main_thread"))
    return flow


def timed() -> Flow:
    return chain(in_main_thread, timeout_sec=5.0)


def forked() -> Flow:
    flow = Flow(name="flow")
    flow.add_task(Task(func=first, name="first"))
    flow.add_task(Task(func=in_main_thread, name="in_main_thread"))
    return flow


@pytest.mark.parametrize("make", [isolated, timed, forked])
def test_a_flow_that_is_not_a_plain_chain_uses_the_thread_pool(make: Callable[[], Flow]) -> None:
    finished = execute(make())
    assert (finished.how, finished.records["in_main_thread"].output) == ("succeeded", False)


def test_a_plain_chain_runs_sequentially() -> None:
    finished = execute(chain(first, in_main_thread))
    assert (finished.how, finished.records["in_main_thread"].output) == ("succeeded", True)


def test_task_states_are_reported_during_the_run() -> None:
    frames: list[Progress | TaskChanged] = []
    order = RunOrder(run_id=new_run_id(), attempt=1, flow_name="flow", params={"x": 1})
    run = EngineRun(order, max_record_bytes=1000, send=frames.append)

    def look() -> None:
        run.report_progress()

    run.execute(lambda _: chain(first, look, second))
    progress = next(frame for frame in frames if isinstance(frame, Progress))
    assert progress.tasks == {
        "first": TaskStatus.SUCCEEDED,
        "look": TaskStatus.RUNNING,
        "second": TaskStatus.PENDING,
    }
    # After a request for progress, every change is reported.
    after = frames[frames.index(progress) + 1 :]
    assert [(frame.task, frame.state) for frame in after if isinstance(frame, TaskChanged)] == [
        ("look", TaskStatus.SUCCEEDED),
        ("second", TaskStatus.RUNNING),
        ("second", TaskStatus.SUCCEEDED),
    ]


@pytest.mark.parametrize("steps", [(first, second), (first, breaks), ()])
def test_the_derived_engine_behaves_like_the_engine_of_pyoco(
    steps: tuple[Callable[..., object], ...], options: dict[str, Any]
) -> None:
    """Fails if a new version of pyoco adds behaviour that the derived engine does not copy."""
    seen: list[dict[str, Any]] = []
    for engine in (Engine, _Engine):
        context = RunContext(run_id="run")
        flow, failure, results = chain(*steps, **options), None, None
        try:
            results = engine(Silent()).run(flow, {"x": 1}, run_context=context).results
        except ValueError as error:
            failure = str(error)
        seen.append(
            {
                **vars(context),
                "results": results,
                "failure": failure,
                "tasks": dict(sorted(context.tasks.items())),
                "task_records": {
                    name: (record.state, record.output, record.inputs, record.error)
                    for name, record in sorted(context.task_records.items())
                },
                **dict.fromkeys(("start_time", "end_time")),
            }
        )
    assert seen[0] == seen[1]


def test_the_engine_does_not_capture_output() -> None:
    def speak() -> None:
        sys.stdout.write("hello")

    before = sys.stdout
    run = run_of()

    def look() -> bool:
        return sys.stdout is before

    finished = run.execute(lambda _: chain(speak, look))
    assert finished.records["look"].output is True
    assert run._context.logs == []


def test_a_flow_that_raises_an_exception_without_text_fails() -> None:
    def raise_unprintable() -> None:
        class UnprintableError(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        raise UnprintableError

    finished = execute(chain(raise_unprintable))
    assert finished.how == "failed"
    assert finished.error


def test_nothing_is_reported_after_the_end_of_the_run() -> None:
    sent: list[Progress | TaskChanged] = []
    order = RunOrder(run_id=new_run_id(), attempt=1, flow_name="flow", params={}, secret="s")
    run = EngineRun(order, max_record_bytes=100_000, send=sent.append)
    finished = run.execute(lambda _: chain(first))
    before = len(sent)
    run.report_progress()
    assert {frame.secret for frame in (*sent, finished)} == {"s"}
    assert len(sent) == before > 0
