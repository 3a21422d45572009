from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_client.event_stream import EventDecoder, EventTooLargeError, ServerEvent

STREAM = (
    '\ufeffevent: snapshot\nid: 7\ndata: {"名":1}\n\n'
    ": a comment\nretry: 1500\n\n"
    "event:heartbeat\r\ndata: one\r\ndata: two\r\n\r\n"
    "data\rdata: x\r\rid: 9\n\n"
    "event: cut\ndata: never"
).encode()
EVENTS = [
    ServerEvent("snapshot", '{"名":1}', "7"),
    ServerEvent("heartbeat", "one\ntwo"),
    ServerEvent("message", "\nx"),
]


@given(cuts=st.lists(st.integers(0, len(STREAM))))
def test_events_do_not_depend_on_the_pieces_of_the_stream(cuts: list[int]) -> None:
    decoder = EventDecoder()
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[begin:end] for begin, end in pairwise(places)]
    assert [event for piece in pieces for event in decoder.feed(piece)] == EVENTS
    assert decoder.retry_ms == 1500


@given(st.binary())
def test_any_bytes_are_decoded_without_an_error(data: bytes) -> None:
    for event in EventDecoder().feed(data):
        assert "\n" not in event.event


@pytest.mark.parametrize("hint", ["soon", "-1", "", "９", "9" * 12])
def test_a_retry_field_that_is_not_a_number_is_ignored(hint: str) -> None:
    decoder = EventDecoder()
    assert decoder.feed(f"retry: {hint}\n\n".encode()) == []
    assert decoder.retry_ms is None


@pytest.mark.parametrize("piece", [b"data: xxxxxxxxxx", b"data: xxxxxxxx\n"])
def test_an_event_without_an_end_raises_at_the_limit(piece: bytes) -> None:
    decoder = EventDecoder(max_chars=100)
    for _ in range(5):
        decoder.feed(piece)
    with pytest.raises(EventTooLargeError):
        decoder.feed(piece * 10)
