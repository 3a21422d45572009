"""What goes between a worker and its children arrives whole, however the bytes arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from pyoco_protocol.runs.lifecycle import TaskStatus
from pyoco_protocol.runs.snapshot import TaskRecord
from pyoco_testkit import strategies
from pyoco_worker.child.frames import (
    MAX_FRAME_BYTES,
    CancelOrder,
    Finished,
    FrameDecoder,
    FrameError,
    Ready,
    RunOrder,
    Unusable,
    packed,
    parse_from_child,
    parse_from_parent,
)

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"


def cut(stream: bytes, sizes: list[int]) -> list[bytes]:
    """Return the frames of a stream that arrives in pieces of these sizes."""
    cutter, frames, rest = FrameDecoder(), list[bytes](), stream
    for size in sizes:
        frames += cutter.feed(rest[:size])
        rest = rest[size:]
    return [*frames, *cutter.feed(rest)]


@given(st.lists(st.binary(max_size=50), max_size=6), st.lists(st.integers(0, 20), max_size=30))
def test_any_cutting_of_the_stream_gives_the_same_frames(
    bodies: list[bytes], sizes: list[int]
) -> None:
    stream = b"".join(packed(body) for body in bodies)
    assert cut(stream, sizes) == bodies


def test_byte_by_byte_gives_the_same_frames_too() -> None:
    bodies = [b"", b"a", b"\x00\x00\x00\x05hello", b"x" * 300]
    stream = b"".join(packed(body) for body in bodies)
    assert cut(stream, [1] * len(stream)) == bodies


def test_a_frame_that_is_not_whole_yet_is_waited_for() -> None:
    cutter = FrameDecoder()
    assert list(cutter.feed(packed(b"hello")[:-1])) == []
    assert list(cutter.feed(b"o")) == [b"hello"]


def test_a_length_that_no_frame_has_is_refused_before_it_is_waited_for() -> None:
    with pytest.raises(FrameError):
        list(FrameDecoder().feed((MAX_FRAME_BYTES + 1).to_bytes(4, "big")))
    with pytest.raises(FrameError):
        list(FrameDecoder().feed(b"Traceback (most recent call last)"))


@given(strategies.run_ids, strategies.flow_names, strategies.params)
def test_an_order_arrives_as_it_was_given(
    run_id: str, flow_name: str, params: dict[str, JsonValue]
) -> None:
    order = RunOrder(run_id=run_id, attempt=3, flow_name=flow_name, params=params)
    (body,) = FrameDecoder().feed(order.pack())
    assert parse_from_parent(body) == order


@given(strategies.json_values, st.text(max_size=50))
def test_an_end_arrives_as_it_was_told(output: JsonValue, error: str) -> None:
    finished = Finished(
        run_id=RUN,
        how="failed",
        error=error,
        tasks={"a": TaskStatus.FAILED},
        records={"a": TaskRecord(state=TaskStatus.FAILED, output=output)},
    )
    (body,) = FrameDecoder().feed(finished.pack())
    assert parse_from_child(body) == finished


def test_each_kind_of_frame_is_told_by_its_kind() -> None:
    for frame in (Ready(), Unusable(error="no such module")):
        (body,) = FrameDecoder().feed(frame.pack())
        assert parse_from_child(body) == frame
    (body,) = FrameDecoder().feed(CancelOrder(run_id=RUN).pack())
    assert parse_from_parent(body) == CancelOrder(run_id=RUN)


@given(st.binary(max_size=40) | st.sampled_from([b"{}", b'{"kind": "run"}', b"[]", b"null"]))
def test_what_a_child_did_not_send_is_no_frame(body: bytes) -> None:
    with pytest.raises(FrameError):
        parse_from_child(body)
