"""`pyoco-server-admin api-key`: creates, lists, revokes and rotates API keys."""

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.commands.admin.times import moment_in, seconds_in
from pyoco_protocol.ids import MAX_TAG_CHARS, is_label, is_tag

if TYPE_CHECKING:
    from pyoco_gateway.access.keys import Pepper

Read = TypeVar("Read")

_COMMAND: Final = "pyoco-server-admin api-key"
EXAMPLES: Final[Mapping[str, str]] = {
    "create": f"{_COMMAND} create --tenant acme --scope runs:read,runs:write --expires 90d",
    "list": f"{_COMMAND} list --tenant acme",
    "revoke": f"{_COMMAND} revoke --key-id a2b3c4d5e6f7",
    "rotate": f"{_COMMAND} rotate --key-id a2b3c4d5e6f7 --overlap 24h",
}
_SERVICE: Final = "pyoco-server:admin"
_SCOPES: Final = ", ".join(KeyScope)


def _checked(read: Callable[[str], Read]) -> Any:
    """Return a callback that parses an option with `read`; ValueError becomes a usage error."""

    def callback(_: click.Context, parameter: click.Parameter, text: str | None) -> Read | None:
        if text is None:
            return None
        try:
            return read(text)
        except ValueError as error:
            raise click.UsageError(f"{parameter.opts[0]} {error}") from error

    return callback


def _tenant(text: str) -> str:
    if not is_tag(text):
        raise ValueError(f"must be 1 to {MAX_TAG_CHARS} letters, digits, '_' or '-'")
    return text


def _name(text: str) -> str:
    if not is_label(text):
        raise ValueError("must be 1 to 256 characters without control characters")
    return text


def _key_id(text: str) -> str:
    from pyoco_gateway.access.earlier_keys import is_earlier_key_id
    from pyoco_gateway.access.keys import is_key_id

    if not (is_key_id(text) or is_earlier_key_id(text)):
        # The message does not repeat the text: it may be a whole key.
        raise ValueError("must be a key id as shown by `list`: the middle part of a key")
    return text


def _moment(text: str) -> float:
    return moment_in(text, now=time.time())


def _scopes(
    _: click.Context, parameter: click.Parameter, given: tuple[str, ...]
) -> frozenset[KeyScope] | None:
    words = [word.strip() for text in given for word in text.split(",")]
    if not frozenset(KeyScope).issuperset(words):
        raise click.UsageError(f"{parameter.opts[0]} must be one of {_SCOPES}")
    return frozenset(map(KeyScope, words)) or None


_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_of_key = click.option(
    "--key-id", required=True, callback=_checked(_key_id), help="Key id, as shown by `list`."
)
_expires = click.option(
    "--expires",
    metavar="TIME",
    callback=_checked(_moment),
    help="Expiry: 30d from now, or 2027-01-31T00:00:00Z.",
)


@click.group("api-key", no_args_is_help=False)
def api_key() -> None:
    """Create, list, revoke and rotate the API keys of the HTTP API.

    Gateways require keys if PYOCO_HTTP_AUTH_MODE is api_key. Running gateways apply each change
    within 2 seconds.
    """


@api_key.command()
@click.option("--tenant", required=True, callback=_checked(_tenant), help="Tenant of the key.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    callback=_scopes,
    help=f"Permission: {_SCOPES}. May be repeated.  [all but admin]",
)
@_expires
@click.option(
    "--name",
    callback=_checked(_name),
    help="Name of the key, shown by `list` and in the events of executions.",
)
@_as_json
def create(
    *,
    tenant: str,
    scopes: frozenset[KeyScope] | None,
    expires: float | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Create a key and print it. The key is not stored and cannot be shown again.

    PYOCO_AUTH_PEPPER must have the same value as on the gateways, or be set on neither.

    \b
    pyoco-server-admin api-key create --tenant acme
    pyoco-server-admin api-key create --tenant acme --scope ops --expires 90d --name grafana
    """
    import anyio

    environ = _prepared()
    pepper = _pepper(environ)
    from pyoco_gateway.access.keys import DEFAULT_SCOPES
    from pyoco_gateway.commands.admin.key_actions import issue_key
    from pyoco_gateway.commands.admin.key_output import hand_over

    now = time.time()
    issued = anyio.run(
        partial(
            issue_key,
            environ,
            pepper,
            tenant_id=tenant,
            scopes=scopes or DEFAULT_SCOPES,
            name=name,
            now=now,
            expires_at=expires,
        )
    )
    hand_over(issued, now=now, as_json=as_json)


@api_key.command("list")
@click.option("--tenant", callback=_checked(_tenant), help="Only the keys of this tenant.")
@_as_json
def list_keys(*, tenant: str | None, as_json: bool) -> None:
    """List the keys with their tenant, scopes and state. Secrets are not shown.

    \b
    pyoco-server-admin api-key list
    pyoco-server-admin api-key list --tenant acme --json
    """
    import anyio

    environ = _prepared()
    from pyoco_gateway.access.keys import Pepper
    from pyoco_gateway.commands.admin.key_actions import all_keys
    from pyoco_gateway.commands.admin.key_output import show_keys
    from pyoco_protocol.settings import HttpAuthSettings, load_settings

    # A weak pepper does no harm here: keys issued with another one are marked.
    pepper = Pepper(load_settings(HttpAuthSettings, environ).auth_pepper)
    found = [each for each in anyio.run(all_keys, environ) if tenant in (None, each.tenant_id)]
    found.sort(key=lambda each: (each.tenant_id, each.created_at, each.key_id))
    show_keys(found, now=time.time(), pepper=pepper, as_json=as_json)


@api_key.command()
@_of_key
def revoke(*, key_id: str) -> None:
    """Revoke a key permanently; every gateway refuses it within 2 seconds.

    \b
    pyoco-server-admin api-key revoke --key-id a2b3c4d5e6f7
    """
    import anyio

    environ = _prepared()
    from pyoco_gateway.commands.admin.key_actions import revoke_key
    from pyoco_gateway.commands.admin.key_output import show_revoked

    now = time.time()
    show_revoked(anyio.run(partial(revoke_key, environ, key_id, now=now)), now=now)


@api_key.command()
@_of_key
@click.option(
    "--overlap",
    metavar="TIME",
    default="24h",
    show_default=True,
    callback=_checked(seconds_in),
    help="How long the old key stays valid; 0s ends it at once.",
)
@_expires
@_as_json
def rotate(*, key_id: str, overlap: float, expires: float | None, as_json: bool) -> None:
    """Replace a key by a new one with the same tenant, scopes and name.

    Both keys are valid until the overlap ends; then the old one expires. The new key is printed
    as by `create`. It gets the lifetime of the old one, unless --expires is given.

    \b
    pyoco-server-admin api-key rotate --key-id a2b3c4d5e6f7
    pyoco-server-admin api-key rotate --key-id a2b3c4d5e6f7 --overlap 1h
    """
    import anyio

    environ = _prepared()
    pepper = _pepper(environ)
    from pyoco_gateway.commands.admin.key_actions import rotate_key
    from pyoco_gateway.commands.admin.key_output import hand_over, show_rotated

    now = time.time()
    former, issued = anyio.run(
        partial(
            rotate_key,
            environ,
            pepper,
            key_id,
            now=now,
            overlap_sec=overlap,
            expires_at=expires,
        )
    )
    hand_over(issued, now=now, as_json=as_json)
    show_rotated(former, issued)


def _prepared() -> dict[str, str]:
    """Return the environment, and send logs to stderr: stdout is for the command's result."""
    import logging

    from pyoco_gateway.settings import environment_notes, environment_with
    from pyoco_protocol.logging.setup import configure_logging
    from pyoco_protocol.settings import LogSettings, load_settings

    defaults = {"PYOCO_LOG_FORMAT": "text", "PYOCO_LOG_LEVEL": "WARNING"}
    environ = environment_with({}, defaults=defaults)
    configure_logging(_SERVICE, load_settings(LogSettings, environ), stream=sys.stderr)
    for note in environment_notes(environ):
        logging.getLogger(__name__).warning("environment", extra={"note": note})
    return environ


def _pepper(environ: Mapping[str, str]) -> "Pepper":
    from pyoco_gateway.access.keys import Pepper
    from pyoco_protocol.settings import HttpAuthSettings, load_settings

    return Pepper.of(load_settings(HttpAuthSettings, environ))
