import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_client.cli.display.safe_text import (
    clipped,
    columns_of,
    encodable,
    padded,
    safe_line,
    safe_text,
    wrapped,
)

ANY_TEXT = st.text(alphabet=st.characters(codec=None, categories=None))


@given(ANY_TEXT)
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    for character in safe_line(text):
        assert unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.bidirectional(character) not in (
            *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"),
        )


@given(ANY_TEXT)
def test_lines_and_tabs_are_all_that_safe_text_keeps_beyond_a_line(text: str) -> None:
    assert safe_line(safe_text(text)) == safe_line(text)
    assert {each for each in safe_text(text) if unicodedata.category(each) == "Cc"} <= {"\n", "\t"}


@given(ANY_TEXT.map(safe_line), st.integers(min_value=0, max_value=60))
def test_what_is_clipped_fits_and_what_is_padded_fills(text: str, columns: int) -> None:
    assert columns_of(clipped(text, columns)) <= columns
    assert columns_of(padded(text, columns)) == columns
    if columns_of(text) <= columns:
        assert clipped(text, columns) == text


@given(ANY_TEXT.map(safe_line), st.integers(min_value=1, max_value=60))
def test_wrapped_lines_hold_all_words_and_fit_where_words_do(text: str, columns: int) -> None:
    lines = wrapped(text, columns)
    assert " ".join(lines).split() == text.split()
    for line in lines:
        assert columns_of(line) <= columns or " " not in line.strip(" ")


@pytest.mark.parametrize(
    ("text", "columns"),
    [("hello", 5), ("日本語", 6), ("ﾊﾝｶｸ", 4), ("がぎ", 4), ("か\u3099", 2), ("Ａ", 2), ("", 0)],
)
def test_east_asian_text_is_measured_as_terminals_draw_it(text: str, columns: int) -> None:
    assert columns_of(text) == columns


def test_what_an_encoding_lacks_is_escaped() -> None:
    assert encodable("挨拶 ok", "ascii") == "\\u6328\\u62f6 ok"
    assert encodable("挨拶 ✓", "shift_jis") == "挨拶 \\u2713"
    assert encodable("挨拶 ✓", None) == "挨拶 ✓"
