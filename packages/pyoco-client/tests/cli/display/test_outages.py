import os
import sys
import time

import pytest

from pyoco_client.cli.display.outages import Outages
from pyoco_client.contact import Outage
from pyoco_client.errors import BrokerUnavailableError, GatewayUnreachableError
from pyoco_testkit.terminal_session import TerminalSession

NO_GATEWAY = GatewayUnreachableError("http://127.0.0.1:1", "refused", may_have_arrived=False)
NO_BROKER = BrokerUnavailableError(503, {"message": "NATS is not available\x1b[31m"})

# Shows a run, and the begin and the end of an outage as the test asks.
PROGRAM = """
import os, sys
from pyoco_client.cli.display.live import follow
from pyoco_client.cli.display.outages import Outages
from pyoco_client.contact import Outage
from pyoco_client.errors import BrokerUnavailableError
outages = Outages()
def snapshots():
    yield {"run_id": "r" * 20, "flow_name": "hello", "status": "PENDING"}
    for line in os.fdopen(int(sys.argv[1])):
        error = BrokerUnavailableError(503, {"message": "NATS is not available\\x1b[31m"})
        outages.take(Outage(error, since=-12.0) if line == "lost\\n" else None)
follow(snapshots(), sys.stdout, clock=lambda: 0.0, outages=outages)
"""


@pytest.mark.parametrize("lines", [24, 4, 2])
async def test_a_live_view_says_that_its_rows_are_old(lines: int) -> None:
    read_end, write_end = os.pipe()
    command = [sys.executable, "-c", PROGRAM, str(read_end)]
    async with TerminalSession(command, open_files=[read_end], lines=lines) as session:
        os.close(read_end)
        await session.shows("hello  PENDING")
        before = session.screen.rows
        os.write(write_end, b"lost\n")
        await session.shows("NATS is not available\\u001b[31m: no news for 12s, trying again")
        assert len(session.screen.rows) <= lines
        os.write(write_end, b"back\n")
        await session.shows("hello  PENDING")
        os.close(write_end)
        assert await session.ended() == 0
        assert session.screen.rows == before


def test_the_row_names_the_outage_and_its_length() -> None:
    outages = Outages()
    assert outages.row(100.0) is None
    outages.take(Outage(NO_GATEWAY, since=88.0))
    assert outages.row(100.0) == "connection lost: no news for 12s, trying again"
    outages.take(None)
    assert outages.row(100.0) is None


def test_other_outputs_get_a_line_for_the_begin_and_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    outages = Outages()
    outages.take(Outage(NO_BROKER, since=time.time() - 72))
    outages.take(None)
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == (
        "",
        [
            "no news, trying again: NATS is not available\\u001b[31m",
            "up to date again after 1m12s",
        ],
    )
