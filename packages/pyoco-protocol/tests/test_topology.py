from pyoco_protocol.settings import ConsumerSettings, TopologySettings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import (
    CHECKPOINT_TTL_SEC,
    execution_topology,
    key_topology,
    names_from,
    wanted_consumer,
    wanted_topology,
)


def test_the_names_come_from_the_settings() -> None:
    names = names_from(
        TopologySettings(
            work_stream="W",
            work_subject_prefix="acme.work",
            dlq_stream="D",
            dlq_subject_prefix="acme.dlq",
            runs_kv_bucket="runs",
            workers_kv_bucket="workers",
            auth_kv_bucket="auth",
            wheel_object_store_bucket="wheels",
            wheel_history_kv_bucket="history",
            workflows_object_store_bucket="workflows",
            run_log_stream="L",
            run_log_subject_prefix="acme.logs",
            execution_stream="E",
            execution_subject_prefix="acme.exec",
            graph_stream="G",
            graph_subject_prefix="acme.graph",
            execution_checkpoints_kv_bucket="checkpoints",
        )
    )
    assert names == Names(
        work_stream="W",
        work_prefix="acme.work",
        dlq_stream="D",
        dlq_prefix="acme.dlq",
        runs_bucket="runs",
        workers_bucket="workers",
        auth_bucket="auth",
        wheels_bucket="wheels",
        wheel_history_bucket="history",
        workflows_bucket="workflows",
        run_log_stream="L",
        run_log_prefix="acme.logs",
        execution_stream="E",
        execution_prefix="acme.exec",
        graph_stream="G",
        graph_prefix="acme.graph",
        checkpoints_bucket="checkpoints",
    )


def test_the_default_names_are_those_of_the_published_protocol() -> None:
    assert names_from(TopologySettings()) == Names()


def test_the_work_stream_never_drops_an_accepted_job() -> None:
    work, *_ = wanted_topology(TopologySettings()).streams
    assert (work.retention, work.discard) == ("workqueue", "new")
    assert (work.max_age_sec, work.max_msgs, work.max_bytes) == (None, None, None)


def test_zero_removes_the_limits_of_the_dead_letter_stream() -> None:
    _, limited, _ = wanted_topology(TopologySettings(dlq_max_age_sec=5, dlq_max_msgs=6)).streams
    assert (limited.max_age_sec, limited.max_msgs) == (5, 6)
    _, unlimited, _ = wanted_topology(
        TopologySettings(dlq_max_age_sec=0, dlq_max_msgs=0, dlq_max_bytes=0)
    ).streams
    assert (unlimited.max_age_sec, unlimited.max_msgs, unlimited.max_bytes) == (None, None, None)


def test_run_output_has_limits_that_zero_removes() -> None:
    *_, logs = wanted_topology(TopologySettings()).streams
    assert (logs.retention, logs.discard) == ("limits", "old")
    assert (logs.max_age_sec, logs.max_bytes) == (604_800, 1_073_741_824)
    *_, unlimited = wanted_topology(
        TopologySettings(run_log_max_age_sec=0, run_log_max_stream_bytes=0)
    ).streams
    assert (unlimited.max_age_sec, unlimited.max_bytes) == (None, None)


def test_all_streams_and_buckets_have_the_configured_replicas() -> None:
    topology = wanted_topology(TopologySettings(replicas=3))
    assert {stream.replicas for stream in topology.streams} == {3}
    assert {bucket.replicas for bucket in topology.buckets} == {3}
    assert {bucket.replicas for bucket in topology.object_buckets} == {3}


def test_the_api_key_bucket_is_only_included_on_request() -> None:
    """Workers also create missing buckets, but not the one with API keys."""
    settings = TopologySettings(replicas=3, auth_kv_bucket="acme_keys")
    without = wanted_topology(settings)
    keys = wanted_topology(settings, with_keys=True)
    assert "acme_keys" not in {bucket.name for bucket in without.buckets}
    assert keys.buckets == (*without.buckets, *key_topology(settings).buckets)
    assert (keys.streams, keys.object_buckets) == (without.streams, without.object_buckets)
    (bucket,) = key_topology(settings).buckets
    assert (bucket.name, bucket.replicas) == ("acme_keys", 3)
    assert (key_topology(settings).streams, key_topology(settings).object_buckets) == ((), ())


def test_only_the_worker_registry_forbids_a_ttl() -> None:
    topology = wanted_topology(TopologySettings())
    assert {bucket.name: bucket.forbid_ttl for bucket in topology.buckets} == {
        topology.names.runs_bucket: False,
        topology.names.workers_bucket: True,
    }


def test_the_workers_of_a_tag_share_one_consumer() -> None:
    settings = ConsumerSettings(consumer_ack_wait_sec=12, consumer_max_ack_pending=7)
    consumer = wanted_consumer("gpu", Names(), settings)
    assert consumer.name == "pyoco_workers_gpu"
    assert (consumer.stream, consumer.filter_subject) == ("PYOCO_WORK", "pyoco.work.gpu")
    assert (consumer.ack_wait_sec, consumer.max_ack_pending) == (12, 7)


def test_executions_and_graphs_are_not_a_part_of_the_topology_of_runs() -> None:
    settings = TopologySettings(replicas=3)
    runs, executions = wanted_topology(settings, with_keys=True), execution_topology(settings)
    assert not {each.name for each in runs.streams} & {each.name for each in executions.streams}
    assert not {each.name for each in runs.buckets} & {each.name for each in executions.buckets}
    assert {stream.replicas for stream in executions.streams} == {3}
    assert {bucket.replicas for bucket in executions.buckets} == {3}


def test_the_logs_of_executions_and_graphs_have_no_limit_and_cannot_be_changed() -> None:
    for stream in execution_topology(TopologySettings()).streams:
        assert (stream.retention, stream.allow_direct) == ("limits", True)
        assert (stream.max_age_sec, stream.max_msgs, stream.max_bytes) == (None, None, None)
        assert (stream.deny_delete, stream.deny_purge, stream.purged_because_of) == (
            True,
            True,
            None,
        )


def test_a_retention_allows_to_purge_executions_but_not_graphs() -> None:
    executions, graphs = execution_topology(TopologySettings(execution_retention_sec=5)).streams
    assert (executions.deny_delete, executions.deny_purge) == (True, False)
    assert executions.purged_because_of == "PYOCO_EXECUTION_RETENTION_SEC"
    assert (graphs.deny_delete, graphs.deny_purge, graphs.purged_because_of) == (True, True, None)


def test_checkpoints_expire() -> None:
    (checkpoints,) = execution_topology(TopologySettings()).buckets
    assert checkpoints.max_age_sec == CHECKPOINT_TTL_SEC == 30 * 86_400
