from pathlib import Path

import pytest

from pyoco_testkit.documents import blocks_in, tables_in

PAGE = """\
# First
text

| name | value |
|---|---|
| `a` | `x` or `y` |
| b | one \\| two |

| second | table |
|---|---|
| is | skipped |

## Second

<!-- file: flows/my.py -->
```python
print(1)
```

```bash
not marked
```

<!-- run: example -->
```bash
echo one
echo two
```
<!-- expect: one -->
<!-- expect: two -->
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    return path


def test_a_table_is_read_by_heading_and_column(page: Path) -> None:
    assert tables_in(page) == {
        "First": [{"name": "a", "value": "`x` or `y`"}, {"name": "b", "value": "one | two"}]
    }


def test_only_marked_blocks_are_found_with_their_expected_output(page: Path) -> None:
    file, run = blocks_in(page)
    assert (file.kind, file.name, file.text) == ("file", "flows/my.py", "print(1)\n")
    assert (run.kind, run.name, run.language) == ("run", "example", "bash")
    assert run.text == "echo one\necho two\n"
    assert run.expected == ("one", "two")


def test_a_marker_without_a_block_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("<!-- run: example -->\nsome text\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"page.md:2"):
        blocks_in(path)
