from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.runs.output import OutputChunk, OutputEntry
from pyoco_worker.child.output_records import Printed
from pyoco_worker.output.batching import LINE_CUT, MAX_LINE_CHARS, LogBatching

NOW = 1763366400.0
PLENTY = 1_000_000

pieces = st.builds(
    Printed,
    stream=st.sampled_from(["stdout", "stderr"]),
    data=st.text(alphabet="aé\n🎉", max_size=30).map(str.encode) | st.binary(max_size=30),
    task=st.none() | st.sampled_from(["one", "other"]),
    ts=st.none() | st.just(NOW),
)


def batching(max_bytes: int = PLENTY) -> LogBatching:
    return LogBatching("run", 2, max_bytes)


def chunks_of(batch: LogBatching, max_bytes: int = 65_536, now: float = NOW) -> list[OutputChunk]:
    found: list[OutputChunk] = []
    while (chunk := batch.next_chunk(max_bytes, now)) is not None:
        found.append(chunk)
    return found


def entries_of(batch: LogBatching, max_bytes: int = 65_536, now: float = NOW) -> list[OutputEntry]:
    return [entry for chunk in chunks_of(batch, max_bytes, now) for entry in chunk.entries]


def source(printed: Printed) -> tuple[str | None, str, bool]:
    return (printed.task, printed.stream, printed.ts is None)


@given(st.lists(pieces, max_size=20))
def test_each_source_is_told_line_by_line_and_nothing_of_it_is_lost(given: list[Printed]) -> None:
    batch = batching()
    for piece in given:
        assert batch.add(piece, NOW)
    batch.finish(NOW)
    said = entries_of(batch)
    for task in (None, "one", "other"):
        for stream in ("stdout", "stderr"):
            wanted: list[str] = []
            for raw in (False, True):
                mine = [each.data for each in given if source(each) == (task, stream, raw)]
                *whole, rest = b"".join(mine).decode("utf-8", "replace").split("\n")
                wanted += [*whole, *([rest] if rest else [])]
            texts = [each.text for each in said if (each.task, each.stream) == (task, stream)]
            assert sorted(texts) == sorted(each.removesuffix("\r") for each in wanted)


@given(st.lists(pieces, max_size=20), st.integers(400, 2000))
def test_chunks_are_numbered_and_no_larger_than_asked_for(given: list[Printed], size: int) -> None:
    batch = batching()
    for piece in given:
        batch.add(piece, NOW)
    batch.finish(NOW)
    chunks = chunks_of(batch, size)
    assert [chunk.n for chunk in chunks] == list(range(len(chunks)))
    told = 0
    for chunk in chunks:
        assert (chunk.run_id, chunk.attempt, chunk.first_line) == ("run", 2, told)
        assert len(chunk.to_bytes()) <= size or len(chunk.entries) == 1
        assert not chunk.truncated
        told += len(chunk.entries)


@given(st.lists(pieces, max_size=60), st.integers(1, 600))
def test_no_more_is_kept_than_the_limit_and_what_follows_is_said_to_be_missing(
    given: list[Printed], max_bytes: int
) -> None:
    batch = batching(max_bytes)
    wanted = True
    for piece in given:
        assert wanted or not batch.add(piece, NOW)
        wanted = batch.add(piece, NOW)
    batch.finish(NOW)
    chunks = chunks_of(batch, 500)
    texts = [entry.text for chunk in chunks for entry in chunk.entries]
    assert [chunk.truncated for chunk in chunks] == [False] * (len(chunks) - 1) + (
        [not wanted] if chunks else []
    )
    if not wanted:
        assert str(max_bytes) in texts.pop()
    # The piece that reached the limit is kept to the end of its line.
    assert sum(map(len, texts)) <= max_bytes + 60


def test_a_limit_of_nothing_keeps_nothing_and_says_nothing() -> None:
    batch = batching(0)
    assert not batch.add(Printed("stdout", b"hello\n"), NOW)
    batch.finish(NOW)
    assert chunks_of(batch) == []


def test_where_the_child_says_no_more_nothing_more_is_taken() -> None:
    batch = batching()
    assert batch.add(Printed("stdout", b"hello", "a", NOW), NOW)
    assert not batch.add(Printed("stdout", b"", None, NOW, is_last=True), NOW)
    assert not batch.add(Printed("stdout", b"dropped\n"), NOW)
    (chunk,) = chunks_of(batch)
    assert (chunk.entries[0].text, len(chunk.entries), chunk.truncated) == ("hello", 2, True)


def test_a_line_that_is_too_long_is_cut_and_the_next_one_is_whole() -> None:
    batch = batching()
    for _ in range(10):
        batch.add(Printed("stdout", b"x" * 3000, "a", NOW), NOW)
    batch.add(Printed("stdout", b"\nshort\n", "a", NOW), NOW)
    assert [entry.text for entry in entries_of(batch)] == [
        "x" * MAX_LINE_CHARS + LINE_CUT,
        "short",
    ]


def test_a_line_that_is_not_at_its_end_is_shown_after_a_moment() -> None:
    batch = batching()
    batch.add(Printed("stdout", b"are you ", "a", NOW), NOW)
    assert not batch.is_ready(NOW + 0.1)
    assert entries_of(batch, now=NOW + 0.1) == []
    assert batch.is_ready(NOW + 1)
    (shown,) = entries_of(batch, now=NOW + 1)
    batch.add(Printed("stdout", b"there?\n", "a", NOW + 2), NOW + 2)
    (rest,) = entries_of(batch, now=NOW + 2)
    assert (shown.text, shown.ts) == ("are you ", NOW)
    assert (rest.text, rest.ts) == ("there?", NOW + 2)
