"""What every answer says, so that a browser makes no more of it than it is."""

from typing import Final

_POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'"
)

# One list for all answers, also those that the server itself gives to what is no HTTP.
RESPONSE_HEADERS: Final[tuple[tuple[str, str], ...]] = (
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("content-security-policy", _POLICY),
    # For browsers that do not know `frame-ancestors`.
    ("x-frame-options", "DENY"),
    # No page of another site may embed an answer, nor load it as if it were a script.
    ("cross-origin-resource-policy", "same-origin"),
    # What a run holds is nobody's to keep on the way.
    ("cache-control", "no-store"),
)
