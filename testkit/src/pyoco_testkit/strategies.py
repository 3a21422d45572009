"""Hypothesis strategies for wire values: ids, names, params, statuses, jobs, snapshots."""

from string import ascii_letters, digits
from typing import Any

from hypothesis import strategies as st
from pydantic import JsonValue

from pyoco_protocol.ids import MAX_FLOW_NAME_CHARS, MAX_TAG_CHARS
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_testkit.builders import job, snapshot

# Integers up to this size fit into a double, which other readers of our JSON use.
_INTEGER_LIMIT = 2**53

run_ids: st.SearchStrategy[str] = st.uuids().map(str)
run_statuses: st.SearchStrategy[RunStatus] = st.sampled_from(RunStatus)
task_statuses: st.SearchStrategy[TaskStatus] = st.sampled_from(TaskStatus)
moments: st.SearchStrategy[float] = st.floats(min_value=0, max_value=4e9, allow_nan=False)

tags: st.SearchStrategy[str] = st.text(
    alphabet=ascii_letters + digits + "_-", min_size=1, max_size=MAX_TAG_CHARS
)

# Printable text of any script, with a larger share of Japanese.
_printable = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"])
_japanese = st.sampled_from("あいうえおアイウエオー日次集計処理・（）々")
flow_names: st.SearchStrategy[str] = st.one_of(
    st.from_regex(r"[a-z][a-z0-9_]{0,30}", fullmatch=True),
    st.text(alphabet=_japanese, min_size=1, max_size=40),
    st.text(alphabet=_printable, min_size=1, max_size=MAX_FLOW_NAME_CHARS),
)

_encodable = st.characters(exclude_categories=["Cs"])
_keys = st.text(alphabet=_encodable, max_size=20)
json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(min_value=-_INTEGER_LIMIT, max_value=_INTEGER_LIMIT),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(alphabet=_encodable, max_size=40),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)
params: st.SearchStrategy[dict[str, JsonValue]] = st.dictionaries(_keys, json_values, max_size=5)

jobs: st.SearchStrategy[RunJob] = st.builds(
    job,
    run_id=run_ids,
    flow_name=flow_names,
    tag=tags,
    tags=st.lists(tags, max_size=4),
    params=params,
    submitted_at=moments,
)


@st.composite
def snapshots(draw: st.DrawFn, /, **fields: Any) -> RunSnapshot:
    """Return snapshots as the bucket may hold them; strategies in `fields` replace defaults."""
    strategies = {
        "run_id": run_ids,
        "flow_name": flow_names,
        "status": run_statuses,
        "params": params,
        "tasks": st.dictionaries(flow_names, task_statuses, max_size=4),
        "heartbeat_at": moments,
        "updated_at": moments,
        "tag": tags,
        "attempt": st.integers(min_value=0, max_value=20),
        "cancel_requested_at": st.none() | moments,
        "error": st.none() | st.text(alphabet=_encodable, max_size=40),
        **fields,
    }
    return snapshot(**{name: draw(strategy) for name, strategy in strategies.items()})
