"""How many streams may be open."""

from contextlib import ExitStack

import pytest

from pyoco_gateway.event_streams.stream_limits import StreamLimits
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
