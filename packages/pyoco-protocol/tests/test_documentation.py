from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pyoco_protocol import subjects
from pyoco_protocol.dead_letters import DeadLetter, DeadLetterReason
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.output import OutputChunk, OutputEntry
from pyoco_protocol.runs.snapshot import RunSnapshot, TaskRecord
from pyoco_protocol.settings import ConsumerSettings, TopologySettings, document_settings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import (
    CHECKPOINT_TTL_SEC,
    StreamSpec,
    execution_topology,
    wanted_consumer,
    wanted_topology,
)
from pyoco_protocol.workers import WorkerRecord
from pyoco_testkit.documents import tables_in

PAGE = Path(__file__).parents[3] / "docs" / "wire-protocol.md"


def json_type(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Return the type of a JSON schema as the page writes it."""
    if "$ref" in schema:
        return json_type(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return " or ".join(json_type(each, definitions) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"array of {json_type(schema['items'], definitions)}"
    return str(schema.get("type", "any JSON"))


@pytest.mark.parametrize(
    "model", [RunJob, RunSnapshot, TaskRecord, WorkerRecord, DeadLetter, OutputChunk, OutputEntry]
)
def test_the_page_documents_each_field_with_its_type(model: type[BaseModel]) -> None:
    rows = tables_in(PAGE)[model.__name__]
    schema = model.model_json_schema()
    assert [(row["field"], row["type"], row["required"]) for row in rows] == [
        (
            name,
            json_type(schema["properties"][name], schema.get("$defs", {})),
            "yes" if field.is_required() else "no",
        )
        for name, field in model.model_fields.items()
    ]
    assert all(row["meaning"] for row in rows)


def test_the_page_lists_each_name_with_its_setting() -> None:
    rows = tables_in(PAGE)["Names"]
    assert [row["default"] for row in rows] == [
        getattr(Names(), field.name) for field in fields(Names)
    ]
    defaults = {setting.variable: setting.default for setting in document_settings()}
    assert {row["setting"]: row["default"] for row in rows} == {
        row["setting"]: defaults[row["setting"]] for row in rows
    }


def limits(stream: StreamSpec) -> str:
    parts = [
        f"{stream.max_age_sec:.0f} s" if stream.max_age_sec else "",
        f"{stream.max_msgs} messages" if stream.max_msgs else "",
        f"{stream.max_bytes} bytes" if stream.max_bytes else "",
    ]
    return ", ".join(filter(None, parts)) or "none"


def test_the_page_lists_the_created_streams() -> None:
    settings = TopologySettings()
    streams = (*wanted_topology(settings).streams, *execution_topology(settings).streams)
    assert tables_in(PAGE)["Streams"] == [
        {
            "stream": stream.name,
            "subjects": ", ".join(stream.subjects),
            "retention": stream.retention,
            "discard": stream.discard,
            "limits": limits(stream),
        }
        for stream in streams
    ]
    assert {stream.duplicate_window_sec for stream in streams} == {120.0}


def test_the_page_lists_the_created_buckets() -> None:
    settings = TopologySettings()
    runs, executions = wanted_topology(settings, with_keys=True), execution_topology(settings)
    assert tables_in(PAGE)["Buckets"] == [
        {
            "bucket": bucket.name,
            "stream": subjects.kv_stream(bucket.name),
            "subject of a key": subjects.kv_key(bucket.name, "<key>"),
        }
        for bucket in (*runs.buckets, *executions.buckets)
    ]
    assert f"`pyoco_exec_checkpoints` expire after {CHECKPOINT_TTL_SEC} s" in PAGE.read_text()


def test_the_page_lists_the_created_object_buckets() -> None:
    assert tables_in(PAGE)["Object buckets"] == [
        {
            "bucket": bucket.name,
            "stream": subjects.object_stream(bucket.name),
            "subjects": ", ".join(subjects.all_objects(bucket.name)),
        }
        for bucket in wanted_topology(TopologySettings()).object_buckets
    ]


def test_the_page_lists_the_created_consumer() -> None:
    consumer = wanted_consumer("<tag>", Names(), ConsumerSettings())
    assert tables_in(PAGE)["Consumers"] == [
        {
            "consumer": consumer.name,
            "stream": consumer.stream,
            "filter": consumer.filter_subject,
            "ack": "explicit",
            "AckWait": f"{consumer.ack_wait_sec:g} s",
            "MaxAckPending": str(consumer.max_ack_pending),
            "MaxDeliver": "none",
        }
    ]


def test_the_page_lists_the_hints() -> None:
    ping = subjects.worker_ping("w").removesuffix(b"w".hex())
    assert [row["subject"] for row in tables_in(PAGE)["Hints"]] == [
        subjects.cancel_hint("<tag>", "<run_id>"),
        f"{ping}<worker_id>",
    ]


def test_the_page_lists_the_reads() -> None:
    names = Names()
    assert [row["subject"] for row in tables_in(PAGE)["Reads"]] == [
        names.run_read("<tag>", "<run_id>"),
        names.all_worker_reads.replace("*", "<worker_id>"),
    ]


def test_the_page_lists_each_reason_of_a_dead_letter() -> None:
    rows = tables_in(PAGE)["Reasons"]
    assert [row["reason"] for row in rows] == [reason.value for reason in DeadLetterReason]
