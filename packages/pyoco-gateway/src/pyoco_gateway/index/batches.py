"""SQL statements that handle many rows at once.

With a statement for each row, and also with `executemany`, SQLite releases the interpreter lock for
each row. The event loop and the thread of an index then interrupt each other for each row.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

SqlValue = int | str | None
# Stands for the integers of a parameter that `keys_in` made: `key IN {KEYS}`.
KEYS: Final = "(SELECT value FROM json_each(?))"


def keys_in(keys: Iterable[int]) -> tuple[str]:
    """Return the parameters of a statement with `KEYS`."""
    return (json.dumps(list(keys)),)


def rows_of(columns: Sequence[str]) -> str:
    """Return a SELECT of the rows of a parameter, with these names for their values."""
    values = (f"json_extract(value, '$[{at}]') AS {name}" for at, name in enumerate(columns))
    return f"SELECT {', '.join(values)} FROM json_each(?)"  # noqa: S608 - column names of our tables


def execute_rows(db: sqlite3.Connection, sql: str, rows: Sequence[Sequence[SqlValue]]) -> None:
    """Execute a statement that has `rows_of`, unless there are no rows."""
    if rows:
        db.execute(sql, (json.dumps(rows),))
