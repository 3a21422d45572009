"""Encoding of server-sent events."""

from pyoco_gateway.streams import sse


def test_an_event_has_its_name_and_id_and_ends_with_an_empty_line() -> None:
    assert sse.frame("snapshot", '{"a":1}', event_id=7) == (
        b'event: snapshot\nid: 7\ndata: {"a":1}\n\n'
    )


def test_an_event_without_an_id_has_no_id_line() -> None:
    assert sse.frame("heartbeat", sse.beat_json(1.5)) == b'event: heartbeat\ndata: {"ts":1.5}\n\n'


def test_a_reconnect_time_stands_alone_or_in_an_event() -> None:
    assert sse.retry_after(1000) == b"retry: 1000\n\n"
    assert sse.frame("goodbye", "{}", retry_ms=1200) == b"event: goodbye\nretry: 1200\ndata: {}\n\n"
