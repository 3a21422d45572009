"""Security headers of every response."""

from typing import Final

_POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'"
)

# Uvicorn adds these to all responses, including its own to invalid HTTP.
RESPONSE_HEADERS: Final[tuple[tuple[str, str], ...]] = (
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("content-security-policy", _POLICY),
    # For browsers without support for `frame-ancestors`.
    ("x-frame-options", "DENY"),
    # Pages of other sites may not embed a response or load it as a script.
    ("cross-origin-resource-policy", "same-origin"),
    # Caches may not store run data.
    ("cache-control", "no-store"),
)
