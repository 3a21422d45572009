"""How many streams may be open."""

from contextlib import ExitStack

import pytest

from pyoco_gateway.streams.limits import StreamLimits
from pyoco_protocol.problems import TooManyRequestsError
from pyoco_protocol.settings import WatchSettings


def test_each_peer_and_all_together_have_a_limit_and_give_back_what_they_took() -> None:
    limits = StreamLimits(WatchSettings(sse_max_streams=3, sse_max_streams_per_peer=2))
    with ExitStack() as held:
        for peer in ("a", "a", "b"):
            held.enter_context(limits.slot(peer))
        for peer in ("a", "b", "c"):
            with pytest.raises(TooManyRequestsError), limits.slot(peer):
                pass
        assert limits.open == 3
    assert limits.open == 0
    with limits.slot("a"), limits.slot("a"), pytest.raises(TooManyRequestsError), limits.slot("a"):
        pass
    assert not limits._by_peer


def test_each_key_has_a_limit_over_all_peers_and_gives_back_what_it_took() -> None:
    settings = WatchSettings(sse_max_streams_per_peer=3, sse_max_streams_per_key=2)
    limits = StreamLimits(settings)
    with limits.slot("a", "key"), limits.slot("b", "key"):
        with pytest.raises(TooManyRequestsError), limits.slot("c", "key"):
            pass
        # A refusal takes no place, neither of the key nor of the peer.
        with limits.slot("c", "other"), limits.slot("c"), limits.slot("c"):
            assert limits.open == 5
    assert not limits._by_key
    assert not limits._by_peer
