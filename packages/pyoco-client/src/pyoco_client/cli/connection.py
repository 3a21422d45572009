"""What every command shares: how to reach the gateway, and the exit codes."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import click

from pyoco_client.cli.arguments import BadArgumentError

if TYPE_CHECKING:
    from pyoco_client.http_client import PyocoHttpClient

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach the gateway, as the global options say."""

    server: str
    api_key: str | None = field(repr=False)
    api_key_header: str
    timeout: float

    def open(self) -> "PyocoHttpClient":
        """Return a client; refuse an address or a key that is none."""
        from pyoco_client.http_client import PyocoHttpClient

        try:
            return PyocoHttpClient(self.server, self.api_key, self.api_key_header, self.timeout)
        except ValueError as error:
            raise BadArgumentError(
                str(error), "pyoco-client --server http://127.0.0.1:8000 health"
            ) from error


pass_connection = click.make_pass_decorator(Connection)
