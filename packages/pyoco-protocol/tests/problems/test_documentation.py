from pathlib import Path

from pyoco_protocol.problems import CATALOGUE
from pyoco_testkit.documents import tables_in

PAGE = Path(__file__).parents[4] / "docs" / "errors.md"


def test_the_errors_page_lists_the_catalogue() -> None:
    assert tables_in(PAGE)["Catalogue"] == [
        {
            "error": entry.err_id,
            "message id": entry.msg_id,
            "message": entry.message["en"],
            "hint": entry.hint["en"],
            "retry": "yes" if entry.retryable else "no",
        }
        for entry in CATALOGUE.values()
    ]
