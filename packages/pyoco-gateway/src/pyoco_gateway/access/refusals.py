"""Those who were not let in, counted by the reason."""

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter


class Refusal(StrEnum):
    """Why a request went no further than the gate."""

    KEY_MISSING = "key_missing"
    KEY_INVALID = "key_invalid"
    SCOPE_MISSING = "scope_missing"
    KEYS_UNKNOWN = "keys_unknown"
    # Wrong keys, too many of them.
    BACK_OFF = "back_off"
    KEY_RATE = "key_rate"
    PEER_RATE = "peer_rate"


class RefusalCounter:
    """Counts them. Neither keys nor addresses are labels: they are the callers' to choose."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = Counter(
            "pyoco_http_refused_total",
            "Requests that were not let in, by the reason.",
            ("reason",),
            registry=registry,
        )
        self._children = {reason: counter.labels(reason.value) for reason in Refusal}

    def note(self, reason: Refusal) -> None:
        """Count one more."""
        self._children[reason].inc()
