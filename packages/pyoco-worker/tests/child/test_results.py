"""The result of a flow: the outputs of its last tasks."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json
from pyoco import task
from pyoco.core.models import Flow, Task
from pyoco.dsl.graph import build_flow_from_graph

from pyoco_protocol.ids import new_run_id
from pyoco_protocol.runs.lifecycle import TaskStatus
from pyoco_protocol.runs.snapshot import TaskRecord
from pyoco_worker.child.engine import EngineRun
from pyoco_worker.child.frames import Finished, RunOrder
from pyoco_worker.child.results import MAX_RESULT_BYTES, last_tasks, result_of


def execute(flow: Flow, **params: Any) -> Finished:
    order = RunOrder(run_id=new_run_id(), attempt=1, flow_name="flow", params=params)
    return EngineRun(order, max_record_bytes=262_144, send=lambda _: None).execute(lambda _: flow)


def returning(name: str, value: object, **options: Any) -> Task:
    return Task(func=lambda: value, name=name, **options)


def side_by_side(*tasks: Task) -> Flow:
    flow = Flow(name="flow")
    for each in tasks:
        flow.add_task(each)
    return flow


def from_graph(graph: str, *tasks: Task) -> Flow:
    flow: Flow = build_flow_from_graph(
        graph=graph, tasks={each.name: each for each in tasks}, pipes={}, flow_name="flow"
    )
    return flow


def test_the_result_of_a_chain_is_the_output_of_its_last_task() -> None:
    def first() -> int:
        return 1

    def second() -> dict[str, object]:
        return {"rows": [1, None]}

    finished = execute(Flow(name="flow") >> task(first) >> task(second))
    assert (finished.result, finished.result_truncated) == ({"second": {"rows": [1, None]}}, False)


def test_a_task_that_returns_none_is_in_the_result() -> None:
    assert execute(side_by_side(returning("only", None))).result == {"only": None}


def test_the_result_of_a_graph_has_the_tasks_that_no_other_task_depends_on() -> None:
    first, left, right = (returning(name, name.upper()) for name in ("first", "left", "right"))
    for each in (left, right):
        each.dependencies.add(first)
    # A dependent task in another flow does not count.
    left.dependents.add(returning("elsewhere", None))
    finished = execute(side_by_side(first, left, right))
    assert finished.result == {"left": "LEFT", "right": "RIGHT"}


@pytest.mark.parametrize(
    ("graph", "names"),
    [
        ("a >> b", ("b",)),
        ("a >> repeat(count=2){ b >> c }", ("c",)),
        ("repeat(count=2){ a >> repeat(count=2){ b } } >> c", ("c",)),
    ],
)
def test_the_result_of_a_flow_with_steps_has_the_tasks_of_the_last_step(
    graph: str, names: tuple[str, ...]
) -> None:
    flow = from_graph(graph, *(returning(name, name) for name in "abc"))
    finished = execute(flow)
    assert (finished.how, finished.error) == ("succeeded", None)
    assert finished.result == {name: name for name in names}


def test_deeply_nested_steps_are_supported() -> None:
    class Body:
        def __init__(self, step: Any) -> None:
            self.steps = [step]

    class Loop:
        def __init__(self, body: Body) -> None:
            self.body = body

    class Step:
        task = returning("deep", None)

    step: Any = Step()
    for _ in range(5000):
        step = Loop(Body(step))
    flow = Flow(name="flow")
    flow._definition, flow._has_control_flow = [step], True
    assert last_tasks(flow) == ("deep",)


def test_a_run_that_does_not_succeed_has_no_result() -> None:
    def fail() -> None:
        raise ValueError("no")

    assert execute(Flow(name="flow") >> task(fail)).result is None


def test_an_isolated_task_that_failed_is_not_in_the_result() -> None:
    def fail() -> None:
        raise ValueError("no")

    broken = Task(func=fail, name="broken", fail_policy="isolate")
    finished = execute(side_by_side(broken, returning("whole", 1)))
    assert (finished.how, finished.result) == ("succeeded", {"whole": 1})


def test_a_large_output_is_replaced_and_small_outputs_stay() -> None:
    finished = execute(
        side_by_side(
            returning("small", "x"),
            returning("large", "x" * 20_000),
            returning("too-large-for-a-record", "x" * 300_000),
        )
    )
    assert finished.result == {
        "large": {"$truncated": True, "size_bytes": 20_002},
        "small": "x",
        "too-large-for-a-record": {"$truncated": True},
    }
    assert finished.result_truncated


def succeeded(_: str) -> TaskStatus:
    return TaskStatus.SUCCEEDED


names = st.text(min_size=1, max_size=12)
outputs: Callable[[], Any] = lambda: st.none() | st.text(max_size=9000) | st.integers()  # noqa: E731


@given(st.dictionaries(names, outputs(), max_size=40), st.sets(names, max_size=3))
def test_a_result_keeps_its_limit_and_says_whether_it_is_truncated(
    returned: dict[str, Any], without_record: set[str]
) -> None:
    records = {name: TaskRecord(output=value) for name, value in returned.items()}
    wanted = [*returned, *(name for name in without_record if name not in returned)]
    result, truncated = result_of(wanted, records, succeeded)
    assert len(to_json(result)) <= MAX_RESULT_BYTES
    whole = {name for name in result if name in returned and result[name] == returned[name]}
    assert truncated == (whole != set(wanted))


def test_tasks_that_do_not_fit_are_left_out_of_the_result() -> None:
    records = {f"task-{number:05}": TaskRecord(output=number) for number in range(5000)}
    result, truncated = result_of(records, records, succeeded)
    assert truncated
    assert 500 < len(result) < 5000
    assert len(to_json(result)) <= MAX_RESULT_BYTES
