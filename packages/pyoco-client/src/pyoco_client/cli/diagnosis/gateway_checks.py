"""Checks of the gateway: its address, version, clock, transport and access."""

import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from pyoco_client.cli.diagnosis.findings import (
    HEALTH,
    SCOPE_REQUESTS,
    Answer,
    Finding,
    Seen,
    Target,
    Trouble,
    TroubleKind,
    failure,
    fine,
    warning,
)
from pyoco_client.errors import ENVIRONMENT_HINT

_MISSING_KEY: Final = "ERR-PYOCO-0014"
_INVALID_KEY: Final = "ERR-PYOCO-0015"
_MISSING_SCOPE: Final = "ERR-PYOCO-0130"
_NO_SUCH_PATH: Final = "ERR-PYOCO-0110"
_LOOPBACK: Final = re.compile(r"localhost|127(\.\d+){3}|::1")

# `Date` has whole seconds, and the answer takes some time.
_MAX_SKEW_SEC: Final = 3.0

_NEXT_FOR: Final[Mapping[TroubleKind, str]] = {
    TroubleKind.NAME: "Check the name in the address (--server, PYOCO_SERVER or the context).",
    TroubleKind.REFUSED: "Start the gateway there (`pyoco-server up`, or `pyoco-server dev` to try"
    " things out), or give the right address with --server.",
    TroubleKind.TIMEOUT: "Check that the address is right and that no firewall blocks it;"
    " --timeout SEC waits longer.",
    TroubleKind.CERTIFICATE: "Check that the address begins with the right one of http:// and"
    " https://, and that this machine trusts the certificate (SSL_CERT_FILE).",
    TroubleKind.ENVIRONMENT: ENVIRONMENT_HINT,
    TroubleKind.OTHER: "Check the address and the network.",
}


def gateway_findings(
    target: Target, seen: Mapping[str, Seen], own_version: str
) -> Iterator[Finding]:
    """Yield the findings about the gateway; a single failure if it cannot be reached."""
    health = seen[HEALTH]
    if isinstance(health, Trouble):
        yield failure(
            "gateway",
            f"{target.server} (from {target.source}) does not answer: {health.reason}",
            _NEXT_FOR[health.kind],
        )
        return
    version = health.body.get("version") if isinstance(health.body, Mapping) else None
    if health.status != 200 or not isinstance(version, str):
        yield _unusable(target, health)
        return
    took = (health.ended_at - health.began_at) * 1000
    yield fine(
        "gateway", f"{target.server} (from {target.source}) answers in {max(took, 0):.0f} ms"
    )
    yield _versions(own_version, version)
    yield from _clock(health)
    yield from _transport(target)
    yield from _access(target, seen)


def _unusable(target: Target, health: Answer) -> Finding:
    if location := health.headers.get("location"):
        return failure(
            "gateway",
            f"{target.server} redirects to {location}",
            "Give that address with --server, if a gateway has it.",
        )
    if health.err_id is not None:
        return failure("gateway", f"{target.server} refuses: {health.detail}", _hint(health))
    kind = health.headers.get("content-type", "no content type")
    if health.status in (502, 503, 504):
        return failure(
            "gateway",
            f"a proxy at {target.server} answers {health.status}: the gateway behind it is down",
            "Start the gateway, and check its address in the proxy's configuration.",
        )
    software = health.headers.get("server")
    return failure(
        "gateway",
        f"{target.server} is not a Pyoco gateway: it answers {health.status} with {kind}"
        + (f", and is {software}" if software else ""),
        "Give the address of the gateway with --server, and check its port.",
    )


def _versions(own: str, theirs: str) -> Finding:
    mine, yours = _release(own), _release(theirs)
    if mine is None or yours is None or mine == yours:
        return fine("versions", f"pyoco-client {own}, gateway {theirs}")
    what = f"pyoco-client is {own}, the gateway {theirs}"
    if mine < yours:
        wanted = f"{yours[0]}.{yours[1]}"
        return warning(
            "versions",
            what,
            f"Upgrade the client: python -m pip install --upgrade 'pyoco-client=={wanted}.*'",
        )
    return warning("versions", what, "Have the gateway upgraded, or use an older client.")


def _release(version: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None


def _clock(health: Answer) -> Iterator[Finding]:
    server_time = health.server_time
    if server_time is None:
        return
    # The gateway wrote `Date` between `began_at` and `ended_at`, rounded down to the second.
    skew = max(0.0, health.began_at - (server_time + 1.0), server_time - health.ended_at)
    if skew <= _MAX_SKEW_SEC:
        yield fine("clock", "this machine and the gateway agree on the time")
        return
    direction = "behind" if server_time < health.began_at else "ahead of"
    yield warning(
        "clock",
        f"the gateway's clock is {skew:.0f} s {direction} this machine's",
        "Synchronise both by NTP: times in lists and filters are the gateway's.",
    )


def _transport(target: Target) -> Iterator[Finding]:
    url = urlsplit(target.server)
    if target.has_key and url.scheme == "http" and not _LOOPBACK.fullmatch(url.hostname or ""):
        yield warning(
            "transport",
            "the API key is sent unencrypted: the address begins with http://",
            "Reach the gateway through a proxy with https://.",
        )


def _access(target: Target, seen: Mapping[str, Seen]) -> Iterator[Finding]:
    answers = {
        scope: answer
        for scope, request in SCOPE_REQUESTS.items()
        # A gateway of a version without executions does not have their paths.
        if isinstance(answer := seen.get(request), Answer) and answer.err_id != _NO_SUCH_PATH
    }
    ids = {answer.err_id for answer in answers.values()}
    if _MISSING_KEY in ids:
        if target.has_key:
            yield failure(
                "access",
                f"the gateway does not find the key in {target.api_key_header}",
                "Give the header that the gateway reads with --api-key-header.",
            )
        else:
            yield failure(
                "access",
                "the gateway requires an API key, and none is configured",
                "Give one with --api-key, PYOCO_API_KEY or `pyoco-client context set`; an operator"
                " creates it: pyoco-server-admin api-key create --tenant NAME",
            )
        return
    if _INVALID_KEY in ids:
        yield failure(
            "access",
            "the API key is not valid: mistyped, expired or revoked",
            "Ask an operator for a new one: pyoco-server-admin api-key create --tenant NAME",
        )
        return
    if limited := next((each for each in answers.values() if each.status == 429), None):
        yield warning(
            "access",
            f"the gateway limits the number of requests: {limited.detail}",
            f"Wait {limited.headers.get('retry-after', 'some')} s, and send fewer requests.",
        )
        return
    lacking = [scope for scope, answer in answers.items() if answer.err_id == _MISSING_SCOPE]
    # A server error shows neither that a scope is granted nor that it is missing.
    granted = [
        scope
        for scope, answer in answers.items()
        if scope not in lacking and answer.status < HTTPStatus.INTERNAL_SERVER_ERROR
    ]
    if not target.has_key:
        yield fine("access", "the gateway requires no API key")
    elif not granted and not lacking:
        yield warning(
            "access",
            "the gateway cannot check the API key now",
            "Repeat this when the gateway serves requests.",
        )
    elif not lacking:
        yield fine("access", f"the API key is valid, with at least {', '.join(granted)}")
    else:
        yield warning(
            "access",
            f"the API key is valid; it has {', '.join(granted) or 'no scope'} and lacks"
            f" {', '.join(lacking)}",
            "If you need the missing scopes, ask an operator for a key that has them. Checks that"
            " need them are left out below.",
        )


def _hint(answer: Answer) -> str:
    found = answer.body.get("hint") if isinstance(answer.body, Mapping) else None
    return found if isinstance(found, str) else "Read the gateway's log."
