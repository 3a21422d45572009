from pathlib import Path

from pyoco_protocol.settings import document_settings
from pyoco_testkit.documents import tables_in

PAGE = Path(__file__).parents[4] / "docs" / "settings.md"


def test_the_settings_page_lists_all_settings() -> None:
    tables = tables_in(PAGE)
    del tables["Client"]
    documented = [row for table in tables.values() for row in table]
    assert documented == [
        {
            "variable": setting.variable,
            "default": setting.default or "–",
            "meaning": setting.meaning,
            "example": setting.example,
        }
        for setting in document_settings()
    ]
