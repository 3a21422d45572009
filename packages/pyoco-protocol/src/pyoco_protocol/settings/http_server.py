"""What the gateway takes from strangers: whom it answers, how much, and how slowly."""

import ipaddress
import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from pyoco_protocol.settings.base import PyocoSettings, setting
from pyoco_protocol.settings.values import LOWER, Interval

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# A name, an IPv4 address, or an IPv6 address without brackets; never a port.
_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?|[0-9a-f:.]*:[0-9a-f:.]*", re.I)


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _host_names(text: str) -> str:
    for name in _parts(text):
        if not _HOST.fullmatch(name):
            raise ValueError(
                "must be names or addresses without a scheme or a port, joined by commas"
            )
    return text


def _networks(text: str) -> str:
    for part in _parts(text):
        try:
            ipaddress.ip_network(part, strict=False)
        except ValueError:
            raise ValueError(
                "must be addresses or networks such as 10.0.0.0/8, joined by commas"
            ) from None
    return text


HostNames = Annotated[str, AfterValidator(_host_names)]
Networks = Annotated[str, AfterValidator(_networks)]
HeaderCount = Annotated[int, Field(ge=10, le=10_000)]
HeaderBytes = Annotated[int, Field(ge=1024, le=1_048_576)]


class HttpServerSettings(PyocoSettings):
    """Whom the gateway answers, and how large and how slow a request may be."""

    http_docs: Annotated[Literal["auto", "open", "off"], LOWER] = setting(
        "auto",
        "Who may read `/openapi.json`: `auto` asks for a key where the API does, `open` never "
        "does, `off` serves it to nobody.",
        "off",
    )
    allowed_hosts: HostNames = setting(
        "",
        "Names under which a gateway without keys may be called, beside those of this machine, "
        "separated by commas.",
        "pyoco.example,pyoco.internal",
    )
    trusted_proxies: Networks = setting(
        "",
        "Addresses or networks of proxies whose `X-Forwarded-For` is believed, separated by "
        "commas.",
        "10.0.0.5,192.168.0.0/24",
    )
    http_request_timeout_sec: Interval = setting(
        60.0, "How long an answer may take to begin; one that has begun may go on.", "60.0"
    )
    http_body_timeout_sec: Interval = setting(
        10.0,
        "How long a body may take to arrive, and one second more for each 1024 bytes of it.",
        "10.0",
    )
    http_header_timeout_sec: Interval = setting(
        10.0, "How long the first line and the headers of a request may take to arrive.", "10.0"
    )
    http_max_headers: HeaderCount = setting(100, "How many headers a request may have.", "100")
    http_max_header_bytes: HeaderBytes = setting(
        32_768, "How many bytes its first line and its headers may have.", "32768"
    )

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names in `allowed_hosts`."""
        return _parts(self.allowed_hosts)

    @property
    def proxy_networks(self) -> tuple[Network, ...]:
        """The networks in `trusted_proxies`."""
        return tuple(
            ipaddress.ip_network(part, strict=False) for part in _parts(self.trusted_proxies)
        )
