"""Gateways and workers have no broker permissions that they do not need."""

import pytest
from hypothesis import given

from pyoco_protocol import subjects
from pyoco_protocol.broker_rights import gateway_rights, pulls, worker_rights, worker_services
from pyoco_protocol.subjects import Names
from pyoco_testkit.strategies import tags

NAMES = Names()


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject matches a pattern."""
    wanted, given_tokens = pattern.split("."), subject.split(".")
    for index, token in enumerate(wanted):
        if token == ">":
            return len(given_tokens) > index
        if index >= len(given_tokens) or token not in ("*", given_tokens[index]):
            return False
    return len(wanted) == len(given_tokens)


def may(patterns: tuple[str, ...], subject: str) -> bool:
    return any(matches(pattern, subject) for pattern in patterns)


@pytest.mark.parametrize(
    "subject",
    [
        "$JS.API.STREAM.DELETE.PYOCO_WORK",
        "$JS.API.STREAM.PURGE.KV_pyoco_runs",
        "$JS.API.STREAM.UPDATE.KV_pyoco_runs",
        "$JS.API.CONSUMER.MSG.NEXT.PYOCO_WORK.pyoco_workers_cpu",
        "$JS.API.CONSUMER.DELETE.PYOCO_WORK.pyoco_workers_cpu",
        "$JS.API.STREAM.DELETE.PYOCO_EXECUTIONS",
        "$JS.API.STREAM.UPDATE.PYOCO_EXECUTIONS",
        "$JS.API.STREAM.MSG.DELETE.PYOCO_EXECUTIONS",
        "$JS.API.STREAM.PURGE.PYOCO_GRAPHS",
        "$JS.API.STREAM.UPDATE.PYOCO_GRAPHS",
        "$SYS.REQ.SERVER.PING",
    ],
)
def test_a_gateway_cannot_delete_streams_or_pull_jobs(subject: str) -> None:
    assert not may(gateway_rights(NAMES).publish, subject)


@given(tags, tags)
def test_a_worker_has_no_permission_for_another_tag(mine: str, other: str) -> None:
    rights = worker_rights([mine], NAMES)
    consumer = subjects.work_consumer(other)
    for subject in (
        subjects.next_messages(NAMES.work_stream, consumer),
        f"$JS.API.CONSUMER.INFO.{NAMES.work_stream}.{consumer}",
        f"$JS.ACK.{NAMES.work_stream}.{consumer}.1.2.3.4.5",
        f"$JS.ACK.domain.account.{NAMES.work_stream}.{consumer}.1.2.3.4.5",
    ):
        assert may(rights.publish, subject) is (mine == other)
    assert not may(rights.publish, NAMES.work(mine))
    assert not may(rights.publish, NAMES.work(other))


@given(tags, tags)
def test_a_worker_hears_of_and_reads_runs_of_its_own_tags_only(mine: str, other: str) -> None:
    rights = worker_rights([mine], NAMES)
    assert may(rights.publish, NAMES.run_read(other, "a-run")) is (mine == other)
    assert may(rights.subscribe, subjects.cancel_hint(other, "a-run")) is (mine == other)


def test_a_worker_may_use_only_those_parts_of_the_jetstream_api_that_its_queues_need() -> None:
    rights = worker_rights(["cpu"], NAMES)
    consumer = subjects.work_consumer("cpu")
    assert [subject for subject in rights.publish if subject.startswith("$JS.API")] == [
        "$JS.API.INFO",
        f"$JS.API.CONSUMER.INFO.PYOCO_WORK.{consumer}",
        f"$JS.API.CONSUMER.MSG.NEXT.PYOCO_WORK.{consumer}",
    ]


def test_a_gateway_answers_the_reads_of_workers() -> None:
    rights = gateway_rights(NAMES)
    assert rights.may_answer
    for asked in (NAMES.run_read("cpu", "a-run"), NAMES.worker_read("w.1")):
        assert may(rights.subscribe, asked)


def test_pulls_are_a_part_of_the_worker_services() -> None:
    assert set(pulls(["cpu", "gpu"], NAMES)) < set(worker_services(["cpu", "gpu"], NAMES))


def test_no_permission_is_listed_twice() -> None:
    for rights in (gateway_rights(NAMES), worker_rights(["cpu", "gpu"], NAMES)):
        assert len(set(rights.publish)) == len(rights.publish)
        assert len(set(rights.subscribe)) == len(rights.subscribe)


def test_no_user_can_subscribe_to_everything() -> None:
    for rights in (gateway_rights(NAMES), worker_rights(["cpu"], NAMES)):
        for heard in ("$KV.pyoco_auth.key", "$KV.pyoco_runs.run", "pyoco.work.cpu", "_INBOX.x.y"):
            assert not may(rights.subscribe, heard)


EXECUTIONS = (
    *(
        f"$JS.API.{operation}.{stream}{more}"
        for stream in ("PYOCO_EXECUTIONS", "PYOCO_GRAPHS", "KV_pyoco_exec_checkpoints")
        for operation, more in (
            ("STREAM.INFO", ""),
            ("STREAM.CREATE", ""),
            ("STREAM.MSG.GET", ""),
            ("DIRECT.GET", ""),
            ("CONSUMER.CREATE", ".pyoco_watch_1"),
            ("CONSUMER.DELETE", ".pyoco_watch_1"),
            ("CONSUMER.MSG.NEXT", ".pyoco_watch_1"),
        )
    ),
    "$JS.API.STREAM.PURGE.PYOCO_EXECUTIONS",
    "pyoco.exec.an-execution",
    "pyoco.graph.acme.a-graph",
    "$KV.pyoco_exec_checkpoints.an-execution.000001000",
)


@pytest.mark.parametrize("subject", EXECUTIONS)
def test_a_gateway_and_no_worker_uses_the_streams_of_executions(subject: str) -> None:
    assert may(gateway_rights(NAMES).publish, subject)
    worker = worker_rights(["cpu"], NAMES)
    assert not may((*worker.publish, *worker.subscribe), subject)
    assert not may(gateway_rights(NAMES).subscribe, subject)
