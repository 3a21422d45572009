from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.runs.output import OutputChunk, OutputEntry
from pyoco_worker.child.output_records import OutputPiece
from pyoco_worker.output.buffer import LINE_CUT, MAX_LINE_CHARS, OutputBuffer

NOW = 1763366400.0
LARGE_LIMIT = 1_000_000

pieces = st.builds(
    OutputPiece,
    stream=st.sampled_from(["stdout", "stderr"]),
    data=st.text(alphabet="aé\n🎉", max_size=30).map(str.encode) | st.binary(max_size=30),
    task=st.none() | st.sampled_from(["one", "other"]),
    ts=st.none() | st.just(NOW),
)


def buffer_of(max_bytes: int = LARGE_LIMIT) -> OutputBuffer:
    return OutputBuffer("run", 2, max_bytes)


def chunks_of(buffer: OutputBuffer, max_bytes: int = 65_536, now: float = NOW) -> list[OutputChunk]:
    found: list[OutputChunk] = []
    while (chunk := buffer.next_chunk(max_bytes, now)) is not None:
        found.append(chunk)
    return found


def entries_of(
    buffer: OutputBuffer, max_bytes: int = 65_536, now: float = NOW
) -> list[OutputEntry]:
    return [entry for chunk in chunks_of(buffer, max_bytes, now) for entry in chunk.entries]


def source(printed: OutputPiece) -> tuple[str | None, str, bool]:
    return (printed.task, printed.stream, printed.ts is None)


@given(st.lists(pieces, max_size=20))
def test_all_output_of_each_source_is_returned_line_by_line(
    given: list[OutputPiece],
) -> None:
    buffer = buffer_of()
    for piece in given:
        assert buffer.add(piece, NOW)
    buffer.finish(NOW)
    found = entries_of(buffer)
    for task in (None, "one", "other"):
        for stream in ("stdout", "stderr"):
            wanted: list[str] = []
            for raw in (False, True):
                data = [each.data for each in given if source(each) == (task, stream, raw)]
                *whole, rest = b"".join(data).decode("utf-8", "replace").split("\n")
                wanted += [*whole, *([rest] if rest else [])]
            texts = [each.text for each in found if (each.task, each.stream) == (task, stream)]
            assert sorted(texts) == sorted(each.removesuffix("\r") for each in wanted)


@given(st.lists(pieces, max_size=20), st.integers(400, 2000))
def test_chunks_are_numbered_and_keep_their_size_limit(given: list[OutputPiece], size: int) -> None:
    buffer = buffer_of()
    for piece in given:
        buffer.add(piece, NOW)
    buffer.finish(NOW)
    chunks = chunks_of(buffer, size)
    assert [chunk.n for chunk in chunks] == list(range(len(chunks)))
    counted = 0
    for chunk in chunks:
        assert (chunk.run_id, chunk.attempt, chunk.first_line) == ("run", 2, counted)
        assert len(chunk.to_bytes()) <= size or len(chunk.entries) == 1
        assert not chunk.truncated
        counted += len(chunk.entries)


@given(st.lists(pieces, max_size=60), st.integers(1, 600))
def test_output_above_the_limit_is_dropped_and_a_notice_says_so(
    given: list[OutputPiece], max_bytes: int
) -> None:
    buffer = buffer_of(max_bytes)
    wanted = True
    for piece in given:
        assert wanted or not buffer.add(piece, NOW)
        wanted = buffer.add(piece, NOW)
    buffer.finish(NOW)
    chunks = chunks_of(buffer, 500)
    texts = [entry.text for chunk in chunks for entry in chunk.entries]
    assert [chunk.truncated for chunk in chunks] == [False] * (len(chunks) - 1) + (
        [not wanted] if chunks else []
    )
    if not wanted:
        assert str(max_bytes) in texts.pop()
    # The line that reached the limit is kept whole.
    assert sum(map(len, texts)) <= max_bytes + 60


def test_a_limit_of_zero_keeps_no_output_and_adds_no_notice() -> None:
    buffer = buffer_of(0)
    assert not buffer.add(OutputPiece("stdout", b"hello\n"), NOW)
    buffer.finish(NOW)
    assert chunks_of(buffer) == []


def test_output_after_the_last_piece_of_the_child_is_dropped() -> None:
    buffer = buffer_of()
    assert buffer.add(OutputPiece("stdout", b"hello", "a", NOW), NOW)
    assert not buffer.add(OutputPiece("stdout", b"", None, NOW, is_last=True), NOW)
    assert not buffer.add(OutputPiece("stdout", b"dropped\n"), NOW)
    (chunk,) = chunks_of(buffer)
    assert (chunk.entries[0].text, len(chunk.entries), chunk.truncated) == ("hello", 2, True)


def test_a_line_that_is_too_long_is_cut_and_the_next_line_is_complete() -> None:
    buffer = buffer_of()
    for _ in range(10):
        buffer.add(OutputPiece("stdout", b"x" * 3000, "a", NOW), NOW)
    buffer.add(OutputPiece("stdout", b"\nshort\n", "a", NOW), NOW)
    assert [entry.text for entry in entries_of(buffer)] == [
        "x" * MAX_LINE_CHARS + LINE_CUT,
        "short",
    ]


def test_an_unfinished_line_is_sent_after_a_delay() -> None:
    buffer = buffer_of()
    buffer.add(OutputPiece("stdout", b"are you ", "a", NOW), NOW)
    assert not buffer.is_ready(NOW + 0.1)
    assert entries_of(buffer, now=NOW + 0.1) == []
    assert buffer.is_ready(NOW + 1)
    (shown,) = entries_of(buffer, now=NOW + 1)
    buffer.add(OutputPiece("stdout", b"there?\n", "a", NOW + 2), NOW + 2)
    (rest,) = entries_of(buffer, now=NOW + 2)
    assert (shown.text, shown.ts) == ("are you ", NOW)
    assert (rest.text, rest.ts) == ("there?", NOW + 2)
