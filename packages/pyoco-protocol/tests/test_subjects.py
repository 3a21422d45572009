from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol import subjects
from pyoco_protocol.ids import WORKER_ID_PATTERN
from pyoco_protocol.subjects import Names
from pyoco_testkit import strategies

prefixes = st.lists(strategies.tags, min_size=1, max_size=3).map(".".join)


@given(prefixes, strategies.tags)
def test_the_tag_is_read_from_the_subject_of_a_job(prefix: str, tag: str) -> None:
    names = Names(work_prefix=prefix)
    assert names.tag_of_work(names.work(tag)) == tag


@given(prefixes, strategies.tags)
def test_another_subject_has_no_tag(prefix: str, tag: str) -> None:
    names = Names(work_prefix=prefix)
    for other in (
        names.dlq(tag),
        f"{names.work(tag)}.more",
        f"{prefix}.",
        prefix,
        f"x{names.work(tag)}",
        "",
    ):
        assert names.tag_of_work(other) is None


@given(strategies.tags, strategies.run_ids)
def test_the_run_id_is_read_from_the_subject_of_a_cancel_hint(tag: str, run_id: str) -> None:
    hint = subjects.cancel_hint(tag, run_id)
    assert subjects.run_of_cancel_hint(hint) == run_id
    # The subscription matches exactly one more token.
    assert hint.split(".")[:-1] == subjects.cancel_hints(tag).split(".")[:-1]
    assert hint.count(".") == subjects.cancel_hints(tag).count(".")
    assert hint.count(".") == subjects.ALL_CANCEL_HINTS.count(".")


@given(strategies.tags, strategies.run_ids)
def test_tag_and_run_id_are_read_from_the_subject_of_a_read(tag: str, run_id: str) -> None:
    asked = Names().run_read(tag, run_id)
    assert subjects.run_of_read(asked) == (tag, run_id)
    assert asked.count(".") == Names().all_run_reads.count(".")


worker_ids = st.from_regex(WORKER_ID_PATTERN, fullmatch=True)


@given(worker_ids)
def test_the_worker_id_is_read_from_the_subject_of_a_read(worker_id: str) -> None:
    asked = Names().worker_read(worker_id)
    assert subjects.worker_of_read(asked) == worker_id
    assert asked.count(".") == Names().all_worker_reads.count(".")


@given(worker_ids, worker_ids)
def test_each_worker_has_its_own_ping_subject(one: str, other: str) -> None:
    assert (subjects.worker_ping(one) == subjects.worker_ping(other)) == (one == other)
    assert subjects.worker_ping(one).count(".") == subjects.worker_ping("a").count(".")


def test_the_default_names_are_those_of_the_published_protocol() -> None:
    names = Names()
    run = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
    assert (names.work_stream, names.all_work, names.work("gpu")) == (
        "PYOCO_WORK",
        "pyoco.work.>",
        "pyoco.work.gpu",
    )
    assert (names.dlq_stream, names.all_dlq, names.dlq("gpu")) == (
        "PYOCO_DLQ",
        "pyoco.dlq.>",
        "pyoco.dlq.gpu",
    )
    assert names.run(run) == f"$KV.pyoco_runs.{run}"
    assert names.worker("host-1") == "$KV.pyoco_workers.host-1"
    assert subjects.kv_stream(names.runs_bucket) == "KV_pyoco_runs"
    # Workers of an earlier server use the same durable consumer.
    assert subjects.work_consumer("gpu") == "pyoco_workers_gpu"
    assert subjects.last_message("KV_pyoco_runs") == "$JS.API.STREAM.MSG.GET.KV_pyoco_runs"
    assert (
        subjects.next_messages("PYOCO_WORK", "pyoco_workers_gpu")
        == "$JS.API.CONSUMER.MSG.NEXT.PYOCO_WORK.pyoco_workers_gpu"
    )


def test_executions_graphs_and_checkpoints_have_the_names_of_the_published_protocol() -> None:
    names = Names()
    execution = "c0de1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
    assert (names.execution_stream, names.all_executions, names.execution(execution)) == (
        "PYOCO_EXECUTIONS",
        "pyoco.exec.*",
        f"pyoco.exec.{execution}",
    )
    assert (names.graph_stream, names.all_graphs) == ("PYOCO_GRAPHS", "pyoco.graph.*.*")
    assert names.tenant_graphs("acme") == "pyoco.graph.acme.*"
    assert names.graph("acme", "order-intake") == "pyoco.graph.acme.order-intake"
    assert names.checkpoints_bucket == "pyoco_exec_checkpoints"
    assert subjects.checkpoint_key(execution, 21_000) == f"{execution}.000021000"
    assert subjects.checkpoint_keys(execution) == f"{execution}.*"


@given(prefixes, strategies.run_ids)
def test_the_execution_id_is_read_from_the_subject_of_a_commit(
    prefix: str, execution_id: str
) -> None:
    names = Names(execution_prefix=prefix)
    assert names.execution_of(names.execution(execution_id)) == execution_id
    for other in (prefix, f"{prefix}.", f"{prefix}.more.{execution_id}", f"x{prefix}.a", ""):
        assert names.execution_of(other) is None


@given(prefixes, strategies.tags, strategies.tags)
def test_tenant_and_graph_id_are_read_from_the_subject_of_a_version(
    prefix: str, tenant: str, graph_id: str
) -> None:
    names = Names(graph_prefix=prefix)
    subject = names.graph(tenant, graph_id)
    assert names.graph_of(subject) == (tenant, graph_id)
    assert subject.count(".") == names.all_graphs.count(".")
    for other in (prefix, f"{prefix}.a", f"{subject}.more", f"x{subject}", f"{prefix}..a", ""):
        assert names.graph_of(other) is None


@given(st.integers(0, 999_999_999), st.integers(0, 999_999_999))
def test_the_keys_of_checkpoints_sort_by_their_event_number(one: int, other: int) -> None:
    keys = [subjects.checkpoint_key("an-execution", seq) for seq in (one, other)]
    assert (keys[0] < keys[1]) == (one < other)
    assert [subjects.seq_of_checkpoint(key) for key in keys] == [one, other]


def test_another_key_is_not_that_of_a_checkpoint() -> None:
    for key in ("an-execution", "an-execution.12", "an-execution.00000000x", "an-execution.", ""):
        assert subjects.seq_of_checkpoint(key) is None
