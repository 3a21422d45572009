import pytest

from pyoco_testkit.screen import Screen, UnknownSequenceError


def test_text_is_written_at_the_cursor_and_wraps_at_the_edge() -> None:
    screen = Screen(5, 3)
    screen.feed(b"abcdefg\r\nxy\rz")
    assert screen.rows == ["abcde", "fg", "zy"]
    assert screen.cursor == (1, 2)


def test_without_wrapping_further_characters_overwrite_the_last_column() -> None:
    screen = Screen(5, 3)
    screen.feed(b"\x1b[?7labcdefg")
    assert screen.rows == ["abcdg"]
    assert not screen.wraps


def test_wide_characters_take_two_columns() -> None:
    screen = Screen(5, 3)
    screen.feed("日本語".encode())
    assert screen.rows == ["日本", "語"]


def test_rows_above_the_cursor_can_be_redrawn() -> None:
    screen = Screen(10, 4)
    screen.feed(b"one\r\ntwo\r\nthree\r\n\x1b[2A\rTWO\x1b[K\r\n\x1b[J")
    assert screen.rows == ["one", "TWO"]


def test_rows_that_scrolled_off_stay_in_the_history_and_out_of_reach_of_the_cursor() -> None:
    screen = Screen(10, 2)
    screen.feed(b"one\r\ntwo\r\nthree\x1b[9A\r2")
    assert (screen.rows, screen.history) == (["2wo", "three"], ["one", "2wo", "three"])


@pytest.mark.parametrize(
    ("reflows", "expected"),
    [(True, ["abc", "def", "日", "本", "x"]), (False, ["abc", "日", "x"])],
)
def test_a_narrower_window_wraps_or_cuts_rows(reflows: bool, expected: list[str]) -> None:
    screen = Screen(8, 9, reflows=reflows)
    screen.feed("abcdef\r\n日本\r\nx".encode())
    screen.resize(3, 9)
    assert screen.rows == expected
    assert screen.cursor == (1, len(expected) - 1)


def test_a_wider_window_joins_wrapped_rows() -> None:
    screen = Screen(4, 9)
    screen.feed(b"abcdef\r\nx")
    screen.resize(8, 9)
    assert screen.rows == ["abcdef", "x"]


def test_a_sequence_may_be_split_between_writes() -> None:
    screen = Screen(10, 2)
    for piece in (b"\x1b", b"[3", b"1mre", b"d\x1b[0m plain", "日".encode()[:1]):
        screen.feed(piece)
    screen.feed("日".encode()[1:])
    assert screen.history == ["red plain", "日"]
    assert (screen.colours_of("red"), screen.colours_of("plain")) == ({"31"}, {""})


@pytest.mark.parametrize(
    "data", [b"\x1b[2J", b"\x1b]0;title\x07", b"\x07", b"\x1b[?1049h", b"\xc2\x9b"]
)
def test_unknown_sequences_and_control_characters_raise(data: bytes) -> None:
    with pytest.raises(UnknownSequenceError):
        Screen(10, 2).feed(data)
