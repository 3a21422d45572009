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
def test_no_control_character_remains(text: str) -> None:
    for character in safe_line(text):
        assert unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.bidirectional(character) not in (
            *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"),
        )


@given(ANY_TEXT)
def test_safe_text_keeps_only_line_feeds_and_tabs(text: str) -> None:
    assert safe_line(safe_text(text)) == safe_line(text)
    assert {each for each in safe_text(text) if unicodedata.category(each) == "Cc"} <= {"\n", "\t"}


@given(ANY_TEXT.map(safe_line), st.integers(min_value=0, max_value=60))
def test_clipped_text_fits_and_padded_text_fills_the_width(text: str, columns: int) -> None:
    assert columns_of(clipped(text, columns)) <= columns
    assert columns_of(padded(text, columns)) == columns
    if columns_of(text) <= columns:
        assert clipped(text, columns) == text


@given(ANY_TEXT.map(safe_line), st.integers(min_value=1, max_value=60))
def test_wrapped_lines_keep_all_words_and_fit_unless_a_word_is_too_long(
    text: str, columns: int
) -> None:
    lines = wrapped(text, columns)
    assert " ".join(lines).split() == text.split()
    for line in lines:
        assert columns_of(line) <= columns or " " not in line.strip(" ")


@pytest.mark.parametrize(
    ("text", "columns"),
    [("hello", 5), ("日本語", 6), ("ﾊﾝｶｸ", 4), ("がぎ", 4), ("か\u3099", 2), ("Ａ", 2), ("", 0)],
)
def test_east_asian_text_has_the_width_of_terminals(text: str, columns: int) -> None:
    assert columns_of(text) == columns


def test_characters_missing_in_an_encoding_are_escaped() -> None:
    assert encodable("挨拶 ok", "ascii") == "\\u6328\\u62f6 ok"
    assert encodable("挨拶 ✓", "shift_jis") == "挨拶 \\u2713"
    assert encodable("挨拶 ✓", None) == "挨拶 ✓"
