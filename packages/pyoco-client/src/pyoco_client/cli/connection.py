"""The connection settings of a command, and the exit codes."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from pyoco_client.cli.arguments import BadArgumentError
from pyoco_client.cli.language import language_of_locale
from pyoco_client.errors import ConfigurationError

if TYPE_CHECKING:
    from pyoco_client import Client
    from pyoco_client.configuration import Settings

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130

_EXAMPLE: Final = "pyoco-client --server http://127.0.0.1:8000 health"


@dataclass(frozen=True, slots=True)
class Connection:
    """The global options of the command line; None is an option that was not given."""

    server: str | None
    api_key: str | None = field(repr=False)
    api_key_header: str | None
    context: str | None
    lang: str | None
    timeout: float | None

    def settings(self) -> "Settings":
        """Return the settings from options, environment and contexts, or raise BadArgumentError."""
        from pyoco_client.configuration import settings_of

        try:
            return settings_of(
                server=self.server,
                api_key=self.api_key,
                api_key_header=self.api_key_header,
                context=self.context,
                lang=self.lang,
            )
        except ConfigurationError as error:
            hint = f". {error.hint}" if error.hint else ""
            raise BadArgumentError(f"{error}{hint}", _EXAMPLE) from error

    def open(self) -> "Client":
        """Return a client; raise BadArgumentError for an invalid address or key."""
        from pyoco_client import Client

        settings = self.settings()
        limits: dict[str, Any] = {} if self.timeout is None else {"timeout": self.timeout}
        # Requests are not repeated: a user at a terminal wants to see a failure at once.
        limits["deadline"] = 0.0
        return Client(
            settings.server,
            api_key=settings.api_key,
            api_key_header=settings.api_key_header,
            lang=settings.lang or language_of_locale(),
            context=self.context,
            **limits,
        )


pass_connection = click.make_pass_decorator(Connection)
