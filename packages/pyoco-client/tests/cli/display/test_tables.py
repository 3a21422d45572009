from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pyoco_client.cli.display.safe_text import columns_of
from pyoco_client.cli.display.tables import Column, pairs, table


def field(name: str) -> Any:
    def cell(record: Mapping[str, Any]) -> str:
        return str(record.get(name, ""))

    return cell


COLUMNS = (Column("ID", field("id")), Column("NAME", field("name"), shrinks=True))


def test_columns_are_aligned_with_wide_characters() -> None:
    records = [{"id": "日本", "name": "太郎"}, {"id": "a", "name": "b"}, {"id": "é", "name": "c"}]
    assert table(records, COLUMNS) == [
        "ID    NAME",
        "日本  太郎",
        "a     b",
        "é     c",
    ]


def test_only_columns_that_shrink_are_cut_to_the_width() -> None:
    records = [{"id": "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4", "name": "とても長い名前のフロー"}]
    title, line = table(records, COLUMNS, width=54)
    assert line == "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4  とても長い名前.."
    assert columns_of(line) == 54
    # The id is never cut, even without room.
    assert "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4" in table(records, COLUMNS, width=20)[1]
    assert title.startswith("ID")


MORE = (
    *COLUMNS,
    Column("TAG", field("tag"), may_go=True),
    Column("WHY", field("why"), may_go=True),
)


def test_empty_columns_and_those_without_room_are_left_out() -> None:
    records = [{"id": "a" * 20, "name": "b", "tag": "cpu"}]
    title = table(records, MORE)[0]
    assert title.split() == ["ID", "NAME", "TAG", "WHY"]
    assert table(records, MORE, width=80)[0].split() == ["ID", "NAME", "TAG"]
    assert table(records, MORE, width=31)[0].split() == ["ID", "NAME", "TAG"]
    assert table(records, MORE, width=30)[0].split() == ["ID", "NAME"]
    assert table(records, MORE, width=1)[0].split() == ["ID", "NAME"]
    assert table([], MORE, width=80)[0].split() == ["ID", "NAME", "TAG", "WHY"]


def test_a_table_without_records_has_its_titles() -> None:
    assert table([], COLUMNS) == ["ID  NAME"]


def test_a_cell_is_one_line_without_control_characters() -> None:
    (_, line) = table([{"id": "a\nb\tc", "name": "\x1b[2J\x9b31m"}], COLUMNS)
    assert line == r"a b c  \u001b[2J\u009b31m"


def test_colours_take_no_columns() -> None:
    def red(title: str, text: str) -> str:
        return f"\x1b[31m{text}\x1b[0m" if title == "ID" else text

    (_, line) = table([{"id": "x", "name": "y"}], COLUMNS, styled=red)
    assert line == "\x1b[31mx\x1b[0m   y"


def test_a_single_record_has_a_line_for_each_field_that_is_not_empty() -> None:
    assert pairs({"id": "1", "name": ""}, COLUMNS) == ["ID  1"]
    assert pairs({"id": "1", "name": "太郎"}, COLUMNS) == ["ID    1", "NAME  太郎"]
    assert pairs({}, COLUMNS) == []


@given(
    st.lists(st.fixed_dictionaries({"id": st.text(), "name": st.text()}), max_size=5),
    st.none() | st.integers(1, 200),
)
def test_every_cell_of_a_column_begins_below_its_title(
    records: list[dict[str, str]], width: int | None
) -> None:
    title, *lines = table(records, COLUMNS, width=width)
    begin = title.index("NAME")
    assert len(lines) == len(records)
    for line in lines:
        if columns_of(line) > begin:
            taken = 0
            for character in line:
                if taken >= begin:
                    break
                taken += columns_of(character)
            assert taken == begin
