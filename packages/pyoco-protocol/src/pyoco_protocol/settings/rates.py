"""How fast callers of the HTTP API may ask, and how often they may be wrong."""

from pyoco_protocol.settings.base import PyocoSettings, setting
from pyoco_protocol.settings.values import Count, Rate


class RateSettings(PyocoSettings):
    """How fast callers may ask; each gateway counts for itself, and what is above is 429."""

    rate_per_key: Rate = setting(
        1000, "Requests a second with one API key, in the long run; 0 sets no limit.", "1000"
    )
    rate_per_key_burst: Count = setting(
        5000, "How many of them may come at once, after a pause.", "5000"
    )
    rate_per_peer: Rate = setting(
        0,
        "Requests a second from one address, in the long run; 0 sets no limit. Clients behind a "
        "proxy that is not trusted share its address.",
        "200",
    )
    rate_per_peer_burst: Count = setting(
        1000, "How many of them may come at once, after a pause.", "1000"
    )
    auth_failures_per_min: Rate = setting(
        20,
        "Wrong API keys a minute with one key id from one address, and five times as many with "
        "any, that are answered 403; more are 429. A right key is never held up. 0 sets no limit.",
        "20",
    )
