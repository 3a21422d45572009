"""Checks the option `--host`: without authentication, only loopback addresses are allowed."""

import ipaddress
import logging
from dataclasses import replace

import click

from pyoco_gateway.http.server import is_loopback
from pyoco_gateway.settings import GatewaySettings
from pyoco_protocol.problems import CliUsageError

_log = logging.getLogger(__name__)


def settings_for_host(
    settings: GatewaySettings, host: str, *, insecure: bool, command: str
) -> GatewaySettings:
    """Return the settings with `host` added to the accepted host names.

    Raise CliUsageError if authentication is off and other machines can reach `host`, unless
    `insecure` is set; then print a warning.
    """
    if settings.auth.http_auth_mode == "none" and not is_loopback(host):
        if not insecure:
            raise CliUsageError(
                f"--host {host} can be reached from other machines and authentication is off; "
                "set PYOCO_HTTP_AUTH_MODE=api_key, or add --insecure to allow this",
                f"{command} --host 127.0.0.1",
            )
        _warn(host)
    return settings if _is_unspecified(host) else _with_host_name(settings, host)


def _warn(host: str) -> None:
    _log.warning("authentication is off on an address that others can reach", extra={"host": host})
    # Also on the terminal, because the log may go elsewhere or have a higher level.
    click.secho(
        f"WARNING: {host} can be reached from other machines and authentication is off.\n"
        "WARNING: everyone who can reach it can submit, read, cancel and delete runs.",
        fg="red",
        bold=True,
        err=True,
    )


def _with_host_name(settings: GatewaySettings, host: str) -> GatewaySettings:
    names = ",".join((*settings.http.host_names, host))
    return replace(settings, http=settings.http.model_copy(update={"allowed_hosts": names}))


def _is_unspecified(host: str) -> bool:
    # Clients never send 0.0.0.0 or :: as the host; they connect to a concrete address.
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
