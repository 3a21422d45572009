"""Access to the API description, allowed hosts, trusted origins and proxies, request limits."""

import ipaddress
import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from pyoco_protocol.settings.base import PyocoSettings, setting
from pyoco_protocol.settings.origins import Origin, origin_in
from pyoco_protocol.settings.values import LOWER, Interval, split_commas

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# A name, an IPv4 address, or an IPv6 address without brackets; never a port.
_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?|[0-9a-f:.]*:[0-9a-f:.]*", re.I)


def _host_names(text: str) -> str:
    for name in split_commas(text):
        if not _HOST.fullmatch(name):
            raise ValueError(
                "must be names or addresses without a scheme or a port, separated by commas"
            )
    return text


def _origins(text: str) -> str:
    for part in split_commas(text):
        if origin_in(part) is None:
            raise ValueError(
                "must be origins of the form scheme://host or scheme://host:port with http or "
                "https, without a path or a slash at the end, separated by commas"
            )
    return text


def _networks(text: str) -> str:
    for part in split_commas(text):
        try:
            ipaddress.ip_network(part, strict=False)
        except ValueError:
            raise ValueError(
                "must be addresses or networks such as 10.0.0.0/8, separated by commas"
            ) from None
    return text


HostNames = Annotated[str, AfterValidator(_host_names)]
Origins = Annotated[str, AfterValidator(_origins)]
Networks = Annotated[str, AfterValidator(_networks)]
HeaderCount = Annotated[int, Field(ge=10, le=10_000)]
HeaderBytes = Annotated[int, Field(ge=1024, le=1_048_576)]


class HttpServerSettings(PyocoSettings):
    """Allowed hosts, trusted origins and proxies, timeouts and size limits of requests."""

    http_docs: Annotated[Literal["auto", "open", "off"], LOWER] = setting(
        "auto",
        "Access to `/openapi.json`: `auto` requires a key if the API does, `open` requires none, "
        "`off` disables it.",
        "off",
    )
    allowed_hosts: HostNames = setting(
        "",
        "Additional host names accepted when authentication is off, separated by commas.",
        "pyoco.example,pyoco.internal",
    )
    trusted_origins: Origins = setting(
        "",
        "Origins of web pages on other hosts or ports that may change data when authentication is "
        "off, separated by commas.",
        "https://dashboard.example,http://127.0.0.1:3000",
    )
    trusted_proxies: Networks = setting(
        "",
        "Addresses or networks of proxies whose `X-Forwarded-For` is trusted, separated by commas.",
        "10.0.0.5,192.168.0.0/24",
    )
    http_request_timeout_sec: Interval = setting(
        60.0, "Time limit until a response starts.", "60.0"
    )
    http_body_timeout_sec: Interval = setting(
        10.0,
        "Time limit for receiving a body, plus one second for each 1024 bytes received.",
        "10.0",
    )
    http_header_timeout_sec: Interval = setting(
        10.0, "Time limit for receiving the request line and headers.", "10.0"
    )
    http_max_headers: HeaderCount = setting(100, "Maximum number of request headers.", "100")
    http_max_header_bytes: HeaderBytes = setting(
        32_768, "Maximum size of the request line and headers.", "32768"
    )

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names in `allowed_hosts`."""
        return split_commas(self.allowed_hosts)

    @property
    def origins(self) -> frozenset[Origin]:
        """The origins in `trusted_origins`."""
        return frozenset(filter(None, map(origin_in, split_commas(self.trusted_origins))))

    @property
    def proxy_networks(self) -> tuple[Network, ...]:
        """The networks in `trusted_proxies`."""
        return tuple(
            ipaddress.ip_network(part, strict=False) for part in split_commas(self.trusted_proxies)
        )
