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
# Some of these bytes look like the start of a mark.
raw = st.builds(
    OutputPiece,
    stream=st.just("stdout"),
    data=(texts | st.sampled_from([MARK[:1], MARK[:-1], b"x" + MARK[:5] + b"y"])).filter(len),
)


def packed(piece: OutputPiece) -> bytes:
    if piece.ts is None:
        return piece.data
    return pack_record(MARK, piece.stream, piece.task, piece.ts, piece.data)


def merged(pieces: list[OutputPiece]) -> list[OutputPiece]:
    """Join adjacent pieces outside records, because their boundaries have no meaning."""
    found: list[OutputPiece] = []
    for piece in pieces:
        if piece.ts is None and found and found[-1].ts is None:
            found.append(OutputPiece(piece.stream, found.pop().data + piece.data))
        else:
            found.append(piece)
    return found


@given(st.lists(records | raw, max_size=12), st.lists(st.integers(1, 40), max_size=20))
def test_records_and_other_output_are_decoded_however_they_are_split(
    pieces: list[OutputPiece], cuts: list[int]
) -> None:
    data = b"".join(map(packed, pieces))
    decoder, found = OutputDecoder(MARK, "stdout"), list[OutputPiece]()
    while data:
        size = cuts.pop() if cuts else len(data)
        found += decoder.feed(data[:size])
        data = data[size:]
    found += decoder.rest()
    assert merged(found) == merged(pieces)


def test_the_largest_record_fits_into_one_atomic_write() -> None:
    text = b"x" * MAX_TEXT_BYTES
    record = pack_record(MARK, "stderr", "タスク" * 100, 1.5, text)
    assert len(record) <= 4096
    (found,) = OutputDecoder(MARK, "stdout").feed(record)
    assert (found.stream, found.data, found.ts) == ("stderr", text, 1.5)
    assert (found.task or "").startswith("タスク")


def test_the_record_of_a_reached_limit_is_marked_as_last() -> None:
    (found,) = OutputDecoder(MARK, "stdout").feed(pack_limit_reached(MARK, 2.5))
    assert (found.is_last, found.data) == (True, b"")


@given(st.binary(max_size=300))
def test_any_bytes_after_a_mark_can_be_decoded(data: bytes) -> None:
    decoder = OutputDecoder(MARK, "stdout")
    list(decoder.feed(MARK + data + MARK + data))
    list(decoder.rest())
