import io
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_client.cli.display.progress import bar, progress, size_of
from pyoco_client.cli.display.safe_text import columns_of
from pyoco_testkit.terminal_session import TerminalSession

# Advances by each number that the test writes to a pipe.
PROGRAM = """
import os, sys
from pyoco_client.cli.display.progress import progress
total = int(sys.argv[2]) or None
with progress("送信中 flow.yaml", total) as advance:
    for line in os.fdopen(int(sys.argv[1])):
        advance(int(line))
print("done")
"""


@pytest.mark.parametrize(
    ("columns", "total", "shown"),
    [
        (80, 2048, "送信中 flow.yaml [===============               ]  50% 2.0 KiB"),
        (40, 2048, "送信中 fl.. [======      ]  50% 2.0 KiB"),
    ],
)
async def test_a_bar_shows_the_progress_and_disappears_at_the_end(
    columns: int, total: int, shown: str
) -> None:
    read_end, write_end = os.pipe()
    command = [sys.executable, "-c", PROGRAM, str(read_end), str(total)]
    async with TerminalSession(
        command, columns=columns, open_files=[read_end], before="$ submit-yaml\n"
    ) as session:
        os.close(read_end)
        os.write(write_end, b"1024\n")
        await session.shows("50%")
        assert session.screen.rows == ["$ submit-yaml", shown]
        os.close(write_end)
        assert await session.ended() == 0
        assert session.screen.rows == ["$ submit-yaml", "done"]
        assert session.is_as_found


async def test_a_bar_without_a_total_moves() -> None:
    read_end, write_end = os.pipe()
    command = [sys.executable, "-c", PROGRAM, str(read_end), "0"]
    async with TerminalSession(command, open_files=[read_end]) as session:
        os.close(read_end)
        await session.shows("[    ===")
        await session.shows("[       ===")
        session.type("\x03")
        assert await session.ended() != 0
        assert session.is_as_found
    os.close(write_end)


def test_nothing_is_written_without_a_terminal() -> None:
    stream = io.StringIO()
    with progress("sending", 10, stream) as advance:
        advance(10)
    assert stream.getvalue() == ""


@given(
    st.text("a日 ", max_size=40),
    st.integers(0, 10**12),
    st.one_of(st.none(), st.integers(0, 10**12)),
    st.integers(0, 1000),
    st.integers(0, 130),
)
def test_a_bar_fits_the_width(
    label: str, done: int, total: int | None, tick: int, width: int
) -> None:
    assert columns_of(bar(label, done, total, tick=tick, width=width)) <= width


def test_sizes_have_their_units() -> None:
    sizes = [0, 1023, 1024, 1536 * 1024, 3 * 1024**3, 5 * 1024**4]
    assert [size_of(size) for size in sizes] == [
        *("0 B", "1023 B", "1.0 KiB", "1.5 MiB", "3.0 GiB", "5120.0 GiB"),
    ]
