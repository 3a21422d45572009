"""Limits per caller: request rates and open event streams."""

from pyoco_protocol.settings.base import PyocoSettings, setting
from pyoco_protocol.settings.values import (
    Count,
    Rate,
)


class WatchSettings(PyocoSettings):
    """Limits of open event streams; each keeps a connection open."""

    sse_max_streams: Count = setting(
        2000, "Maximum number of event streams per gateway; more are answered 429.", "2000"
    )
    sse_max_streams_per_peer: Count = setting(
        256,
        "Maximum number of event streams per address; clients behind a proxy share its address.",
        "256",
    )
    sse_max_streams_per_key: Count = setting(
        256, "Maximum number of event streams per API key.", "256"
    )


class RateSettings(PyocoSettings):
    """Rate limits of callers. Each gateway counts separately and answers 429 above a limit."""

    rate_per_key: Rate = setting(
        1000, "Average requests per second with one API key; 0 means no limit.", "1000"
    )
    rate_per_key_burst: Count = setting(
        5000, "Requests with one API key that are accepted at once after a pause.", "5000"
    )
    rate_per_peer: Rate = setting(
        0,
        "Average requests per second from one address; 0 means no limit. Clients behind a "
        "proxy that is not trusted share its address.",
        "200",
    )
    rate_per_peer_burst: Count = setting(
        1000, "Requests from one address that are accepted at once after a pause.", "1000"
    )
    auth_failures_per_min: Rate = setting(
        20,
        "Invalid API keys per minute and address that are answered 403; more are answered 429. The "
        "limit holds for one key id; it is five times as high for all key ids together. Valid keys "
        "are never limited by it. 0 means no limit.",
        "20",
    )
