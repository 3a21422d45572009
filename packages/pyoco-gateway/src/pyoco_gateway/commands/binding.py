"""Whether a gateway may listen where it was told to."""

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
    """Return the settings of a gateway that listens on `host`, which it may be called by.

    Raise CliUsageError where everybody on the network could do everything, unless `insecure` says
    that this is meant; then say so where it cannot be overlooked.
    """
    if settings.auth.http_auth_mode == "none" and not is_loopback(host):
        if not insecure:
            raise CliUsageError(
                f"--host {host} can be reached from other machines, and nobody is asked for a key; "
                "set PYOCO_HTTP_AUTH_MODE=api_key, or add --insecure if that is what you want",
                f"{command} --host 127.0.0.1",
            )
        _warn(host)
    return settings if _is_everywhere(host) else _called(settings, host)


def _warn(host: str) -> None:
    _log.warning(
        "anybody who can reach this address can submit and read runs", extra={"host": host}
    )
    # Whatever becomes of the log, and whatever its level.
    click.secho(
        f"WARNING: {host} can be reached from other machines and nobody is asked for a key.\n"
        "WARNING: anybody who can reach it can submit, read, cancel and delete runs.",
        fg="red",
        bold=True,
        err=True,
    )


def _called(settings: GatewaySettings, host: str) -> GatewaySettings:
    names = ",".join((*settings.http.host_names, host))
    return replace(settings, http=settings.http.model_copy(update={"allowed_hosts": names}))


def _is_everywhere(host: str) -> bool:
    # Nobody is called so; each connection has an address of its own.
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
