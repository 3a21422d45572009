"""Limits on open streams."""

from contextlib import ExitStack

import pytest

from pyoco_gateway.streams.limits import StreamLimits
from pyoco_protocol.problems import TooManyRequestsError
from pyoco_protocol.settings import WatchSettings


def test_streams_are_limited_per_address_and_in_total_until_they_close() -> None:
    limits = StreamLimits(WatchSettings(sse_max_streams=3, sse_max_streams_per_peer=2))
    with ExitStack() as held:
        for address in ("a", "a", "b"):
            held.enter_context(limits.slot(address))
        for address in ("a", "b", "c"):
            with pytest.raises(TooManyRequestsError), limits.slot(address):
                pass
        assert limits.open == 3
    assert limits.open == 0
    with limits.slot("a"), limits.slot("a"), pytest.raises(TooManyRequestsError), limits.slot("a"):
        pass
    assert not limits._by_address


def test_streams_are_limited_per_key_over_all_addresses() -> None:
    settings = WatchSettings(sse_max_streams_per_peer=3, sse_max_streams_per_key=2)
    limits = StreamLimits(settings)
    with limits.slot("a", "key"), limits.slot("b", "key"):
        with pytest.raises(TooManyRequestsError), limits.slot("c", "key"):
            pass
        # A refused stream counts neither for the key nor for the address.
        with limits.slot("c", "other"), limits.slot("c"), limits.slot("c"):
            assert limits.open == 5
    assert not limits._by_key
    assert not limits._by_address
