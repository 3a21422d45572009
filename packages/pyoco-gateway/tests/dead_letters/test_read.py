"""Pages of dead letters when the index and the stream differ."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from pyoco_gateway.access.caller import UNRESTRICTED
from pyoco_gateway.dead_letters import read as read_dead_letters
from pyoco_gateway.dead_letters.index import DeadLetterIndex, LetterFilter
from pyoco_gateway.dead_letters.read import DeadLetters
from pyoco_protocol.dead_letters import DeadLetter
from pyoco_protocol.jetstream.bucket_watch import Entry
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.dead_letter_reader import DeadLetterReader
from pyoco_protocol.jetstream.dead_letter_writer import DeadLetterWriter
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.subjects import Names
from pyoco_testkit.builders import NOW

ALL = LetterFilter()
LETTER = DeadLetter(timestamp=NOW, reason="execution_error", tag="cpu")


@pytest.fixture
def index() -> Iterator[DeadLetterIndex]:
    with closing(DeadLetterIndex()) as opened:
        yield opened


@pytest.fixture
def letters(broker: Broker, index: DeadLetterIndex) -> DeadLetters:
    return DeadLetters(DeadLetterReader(broker, Names()), index)


def deliver(index: DeadLetterIndex, seq: int) -> None:
    index.on_entry(Entry("cpu", seq, LETTER.to_bytes(), written_at=NOW, pending=0))


async def test_a_stream_that_is_still_being_read_is_not_shown_as_empty(
    broker: Broker, letters: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_dead_letters, "_CATCH_UP_SEC", 0.05)
    await DeadLetterWriter(broker, Names()).put(LETTER, 1)
    with pytest.raises(BrokerUnavailableError, match="still being read"):
        await letters.page(ALL, UNRESTRICTED, before=None, limit=50)
    deliver(letters.index, 1)
    page = await letters.page(ALL, UNRESTRICTED, before=None, limit=50)
    assert ([each.seq for each in page.letters], page.next_before) == ([1], None)


async def test_a_page_is_short_when_very_many_letters_were_removed(
    broker: Broker, letters: DeadLetters
) -> None:
    await DeadLetterWriter(broker, Names()).put(LETTER, 1)
    for seq in range(1, 2502):
        deliver(letters.index, seq)
    pages = []
    before = None
    while True:
        page = await letters.page(ALL, UNRESTRICTED, before=before, limit=100)
        pages.append([each.seq for each in page.letters])
        before = page.next_before
        if before is None:
            break
    # Each request finds a thousand letters missing and drops them from the index.
    assert pages == [[], [], [1]]
    assert len(letters.index) == 1
