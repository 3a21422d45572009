"""Counts refused requests by reason, as a metric."""

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter


class Refusal(StrEnum):
    """Why the access middleware refused a request."""

    KEY_MISSING = "key_missing"
    KEY_INVALID = "key_invalid"
    SCOPE_MISSING = "scope_missing"
    # The keys cannot be read from the broker.
    KEYS_UNKNOWN = "keys_unknown"
    # Too many requests with invalid keys.
    BACK_OFF = "back_off"
    KEY_RATE = "key_rate"
    PEER_RATE = "peer_rate"


class RefusalCounter:
    """Counts refusals. Keys and addresses are not labels, because callers choose them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = Counter(
            "pyoco_http_refused_total",
            "Requests refused by the access check, by reason.",
            ("reason",),
            registry=registry,
        )
        self._children = {reason: counter.labels(reason.value) for reason in Refusal}

    def note(self, reason: Refusal) -> None:
        """Count one refusal."""
        self._children[reason].inc()
