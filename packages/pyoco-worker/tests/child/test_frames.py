"""Frames are decoded correctly however their bytes are split."""

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


def decoded(stream: bytes, sizes: list[int]) -> list[bytes]:
    """Return the frames of a stream that is received in pieces of these sizes."""
    decoder, frames, rest = FrameDecoder(), list[bytes](), stream
    for size in sizes:
        frames += decoder.feed(rest[:size])
        rest = rest[size:]
    return [*frames, *decoder.feed(rest)]


@given(st.lists(st.binary(max_size=50), max_size=6), st.lists(st.integers(0, 20), max_size=30))
def test_any_split_of_the_stream_gives_the_same_frames(
    bodies: list[bytes], sizes: list[int]
) -> None:
    stream = b"".join(packed(body) for body in bodies)
    assert decoded(stream, sizes) == bodies


def test_a_stream_received_byte_by_byte_gives_the_same_frames() -> None:
    bodies = [b"", b"a", b"\x00\x00\x00\x05hello", b"x" * 300]
    stream = b"".join(packed(body) for body in bodies)
    assert decoded(stream, [1] * len(stream)) == bodies


def test_an_incomplete_frame_is_not_returned() -> None:
    decoder = FrameDecoder()
    assert list(decoder.feed(packed(b"hello")[:-1])) == []
    assert list(decoder.feed(b"o")) == [b"hello"]


def test_a_length_above_the_maximum_is_refused_at_once() -> None:
    with pytest.raises(FrameError):
        list(FrameDecoder().feed((MAX_FRAME_BYTES + 1).to_bytes(4, "big")))
    with pytest.raises(FrameError):
        list(FrameDecoder().feed(b"Traceback (most recent call last)"))


@given(strategies.run_ids, strategies.flow_names, strategies.params)
def test_an_order_is_decoded_unchanged(
    run_id: str, flow_name: str, params: dict[str, JsonValue]
) -> None:
    order = RunOrder(run_id=run_id, attempt=3, flow_name=flow_name, params=params)
    (body,) = FrameDecoder().feed(order.pack())
    assert parse_from_parent(body) == order


@given(strategies.json_values, st.text(max_size=50))
def test_a_finished_frame_is_decoded_unchanged(output: JsonValue, error: str) -> None:
    finished = Finished(
        run_id=RUN,
        how="failed",
        error=error,
        tasks={"a": TaskStatus.FAILED},
        records={"a": TaskRecord(state=TaskStatus.FAILED, output=output)},
    )
    (body,) = FrameDecoder().feed(finished.pack())
    assert parse_from_child(body) == finished


def test_a_frame_is_decoded_by_its_kind() -> None:
    for frame in (Ready(), Unusable(error="no such module")):
        (body,) = FrameDecoder().feed(frame.pack())
        assert parse_from_child(body) == frame
    (body,) = FrameDecoder().feed(CancelOrder(run_id=RUN).pack())
    assert parse_from_parent(body) == CancelOrder(run_id=RUN)


@given(st.binary(max_size=40) | st.sampled_from([b"{}", b'{"kind": "run"}', b"[]", b"null"]))
def test_invalid_bytes_raise_a_frame_error(body: bytes) -> None:
    with pytest.raises(FrameError):
        parse_from_child(body)
