import uuid

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from pyoco_protocol.ids import (
    MAX_FLOW_NAME_CHARS,
    MAX_TAG_CHARS,
    MAX_WORKER_ID_CHARS,
    WORKER_ID_PATTERN,
    FlowName,
    RunId,
    Tag,
    UnixSeconds,
    WorkerId,
    idempotent_run_id,
    is_label,
    is_run_id,
    is_tag,
    new_instance_id,
    new_run_id,
)
from pyoco_protocol.subjects import Names
from pyoco_testkit import strategies

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"

as_run_id: TypeAdapter[str] = TypeAdapter(RunId)
as_tag: TypeAdapter[str] = TypeAdapter(Tag)
as_worker_id: TypeAdapter[str] = TypeAdapter(WorkerId)
as_flow_name: TypeAdapter[str] = TypeAdapter(FlowName)
as_unix_seconds: TypeAdapter[float] = TypeAdapter(UnixSeconds)


def accepts(adapter: TypeAdapter[str] | TypeAdapter[float], value: object) -> bool:
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True


@given(strategies.tags)
def test_a_tag_is_one_token_of_a_subject(tag: str) -> None:
    assert is_tag(tag)
    assert accepts(as_tag, tag)
    assert Names().work(tag).count(".") == Names().work_prefix.count(".") + 1


@given(st.text(max_size=MAX_TAG_CHARS + 2))
@example("default\n")
@example("a.b")
@example("*")
@example(">")
@example("")
@example("日次")
@example("a" * (MAX_TAG_CHARS + 1))
def test_the_function_and_the_type_accept_the_same_tags(text: str) -> None:
    assert is_tag(text) == accepts(as_tag, text)


@pytest.mark.parametrize("tag", ["", "a.b", "a b", "*", ">", "a\n", "\n", "ａ", "a" * 65])
def test_dots_and_wildcards_are_refused_in_a_tag(tag: str) -> None:
    assert not is_tag(tag)


def test_new_run_ids_are_valid_and_unique() -> None:
    minted = {new_run_id() for _ in range(1000)}
    assert len(minted) == 1000
    assert all(is_run_id(run_id) and accepts(as_run_id, run_id) for run_id in minted)


@pytest.mark.parametrize(
    "other_spelling",
    [RUN.upper(), f"{{{RUN}}}", RUN.replace("-", ""), f"urn:uuid:{RUN}", f" {RUN}", f"{RUN}\n"],
)
def test_only_the_canonical_form_of_a_uuid_is_a_run_id(other_spelling: str) -> None:
    assert is_run_id(RUN)
    assert not is_run_id(other_spelling)
    assert not accepts(as_run_id, other_spelling)


@pytest.mark.parametrize("text", ["", "a b", ">", "*", "../etc", "0" * 36, "é" * 36])
def test_text_that_is_not_a_uuid_is_not_a_run_id(text: str) -> None:
    assert not is_run_id(text)
    assert not accepts(as_run_id, text)


def test_an_idempotent_run_id_never_changes() -> None:
    # Earlier releases stored these ids; with other ids, a repeat would submit the run again.
    assert (
        idempotent_run_id("acme", "POST /runs", "order-1") == "c668672e-a6f3-5854-958e-2fd8673c4751"
    )
    assert uuid.UUID(idempotent_run_id("", "", "")).version == 5


triples = st.tuples(*[st.text(alphabet="1:ab", max_size=4)] * 3)


@given(triples, triples)
@example(("a", "b", "c"), ("ab", "", "c"))
@example(("1:a", "", ""), ("", "1:a", ""))
def test_idempotent_run_ids_are_equal_only_if_all_parts_are_equal(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert (idempotent_run_id(*one) == idempotent_run_id(*other)) == (one == other)
    assert is_run_id(idempotent_run_id(*one))


def test_new_instance_ids_are_unique() -> None:
    assert len({new_instance_id() for _ in range(1000)}) == 1000


@given(st.from_regex(WORKER_ID_PATTERN, fullmatch=True).filter(lambda text: len(text) <= 128))
def test_every_worker_id_is_a_valid_nats_key(worker_id: str) -> None:
    assert accepts(as_worker_id, worker_id)
    assert all(Names().worker(worker_id).split("."))


@pytest.mark.parametrize("worker_id", ["host-1234", "gpu_1", "a", "host.example.com-7"])
def test_a_host_name_is_a_valid_worker_id(worker_id: str) -> None:
    assert accepts(as_worker_id, worker_id)


@pytest.mark.parametrize(
    "worker_id",
    ["", ".", "..", "a.", "a..b", ".a", "-a", "a/b", "../a", "a b", "a*", ">", "a\n", "日"],
)
def test_text_that_cannot_be_a_key_or_a_directory_is_not_a_worker_id(worker_id: str) -> None:
    assert not accepts(as_worker_id, worker_id)


def test_a_worker_id_has_a_maximum_length() -> None:
    assert accepts(as_worker_id, "a" * MAX_WORKER_ID_CHARS)
    assert not accepts(as_worker_id, "a" * (MAX_WORKER_ID_CHARS + 1))


@given(st.text(max_size=MAX_FLOW_NAME_CHARS + 2))
@example("")
@example("a\u2028b")
@example("夜間 batch")
@example("a" * (MAX_FLOW_NAME_CHARS + 1))
def test_the_function_and_the_type_accept_the_same_labels(text: str) -> None:
    assert is_label(text) == accepts(as_flow_name, text)


@given(strategies.flow_names)
def test_a_flow_name_may_be_printable_text_of_any_script(name: str) -> None:
    assert accepts(as_flow_name, name)


@pytest.mark.parametrize(
    "name",
    ["", "a\nb", "a\x00", "\x1b[31m", "a\x7f", "a\x85", "a\u2028b", "\ud800", "too long" * 33],
)
def test_a_flow_name_cannot_break_a_log_line(name: str) -> None:
    assert not accepts(as_flow_name, name)


@pytest.mark.parametrize("moment", [-1, float("nan"), float("inf"), [1], {}, "soon", None])
def test_unix_seconds_are_finite_and_not_negative(moment: object) -> None:
    assert not accepts(as_unix_seconds, moment)
    assert accepts(as_unix_seconds, 0)
