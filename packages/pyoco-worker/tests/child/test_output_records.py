from hypothesis import given
from hypothesis import strategies as st

from pyoco_worker.child.output_records import (
    MARK_BYTES,
    MAX_TEXT_BYTES,
    OutputDecoder,
    OutputPiece,
    pack_limit_reached,
    pack_record,
)

MARK = b"\x01mark-of-a-child"
assert len(MARK) == MARK_BYTES

texts = st.binary(max_size=60)
times = st.floats(0, 2e9)
records = st.builds(
    OutputPiece,
    stream=st.sampled_from(["stdout", "stderr"]),
    data=texts,
    task=st.none() | st.text(min_size=1, max_size=20),
    ts=times,
)
# Among it what looks like the beginning of a mark.
raw = st.builds(
    OutputPiece,
    stream=st.just("stdout"),
    data=(texts | st.sampled_from([MARK[:1], MARK[:-1], b"x" + MARK[:5] + b"y"])).filter(len),
)


def packed(printed: OutputPiece) -> bytes:
    if printed.ts is None:
        return printed.data
    return pack_record(MARK, printed.stream, printed.task, printed.ts, printed.data)


def merged(pieces: list[OutputPiece]) -> list[OutputPiece]:
    """Join what has no head: where it is cut means nothing."""
    found: list[OutputPiece] = []
    for piece in pieces:
        if piece.ts is None and found and found[-1].ts is None:
            found.append(OutputPiece(piece.stream, found.pop().data + piece.data))
        else:
            found.append(piece)
    return found


@given(st.lists(records | raw, max_size=12), st.lists(st.integers(1, 40), max_size=20))
def test_records_and_the_rest_come_back_however_they_are_cut(
    pieces: list[OutputPiece], cuts: list[int]
) -> None:
    data = b"".join(map(packed, pieces))
    cutter, found = OutputDecoder(MARK, "stdout"), list[OutputPiece]()
    while data:
        size = cuts.pop() if cuts else len(data)
        found += cutter.feed(data[:size])
        data = data[size:]
    found += cutter.rest()
    assert merged(found) == merged(pieces)


def test_the_largest_record_can_be_written_at_once() -> None:
    text = b"x" * MAX_TEXT_BYTES
    record = pack_record(MARK, "stderr", "タスク" * 100, 1.5, text)
    assert len(record) <= 4096
    (found,) = OutputDecoder(MARK, "stdout").feed(record)
    assert (found.stream, found.data, found.ts) == ("stderr", text, 1.5)
    assert (found.task or "").startswith("タスク")


def test_the_last_record_says_so() -> None:
    (found,) = OutputDecoder(MARK, "stdout").feed(pack_limit_reached(MARK, 2.5))
    assert (found.is_last, found.data) == (True, b"")


@given(st.binary(max_size=300))
def test_nothing_that_follows_a_mark_does_harm(data: bytes) -> None:
    cutter = OutputDecoder(MARK, "stdout")
    list(cutter.feed(MARK + data + MARK + data))
    list(cutter.rest())
