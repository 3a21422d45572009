"""The command `doctor`."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from pyoco_client.addresses import shown_address
from pyoco_client.cli.connection import EXIT_FAILED, EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.output import (
    Form,
    is_terminal,
    output_option,
    print_data,
    print_styled,
    terminal_width,
)
from pyoco_client.cli.display.safe_text import padded, safe_line, wrapped
from pyoco_client.cli.examples import examples
from pyoco_client.cli.language import language_of_locale
from pyoco_client.cli.terminal_environment import terminal_environment

if TYPE_CHECKING:
    from pyoco_client.cli.diagnosis.findings import Finding

_COLOURS: Final = {"ok": "green", "warning": "yellow", "failure": "red"}
_LEVEL_COLUMNS: Final = len("failure") + 2
_CHECK_COLUMNS: Final = len("dead letters") + 2
_DEFAULT_TIMEOUT_SEC: Final = 10.0


@click.command(
    epilog=examples(
        "pyoco-client doctor",
        "pyoco-client --server http://127.0.0.1:8000 doctor --output json",
    )
)
@output_option(Form.TEXT, Form.JSON, otherwise="text on a terminal, else json")
@pass_connection
def doctor(connection: Connection, form: Form | None) -> int:
    """Check the gateway, the broker and the workers, and say what to fix.

    The command changes nothing. Each check ends with ok, a warning or a failure; a warning or
    failure comes with the next step. The exit code is 1 if there is a failure. Checks that the API
    key does not permit are left out.
    """
    findings = _findings(connection)
    failed = any(finding.level == "failure" for finding in findings)
    if (form or (Form.TEXT if is_terminal() else Form.JSON)) is Form.JSON:
        checks = [asdict(finding) for finding in findings]
        print_data({"healthy": not failed, "checks": checks})
    else:
        print_styled(_lines(findings))
    return EXIT_FAILED if failed else EXIT_OK


def _findings(connection: Connection) -> "Sequence[Finding]":
    from pyoco_client import __version__
    from pyoco_client.cli.diagnosis.findings import Target
    from pyoco_client.cli.diagnosis.fleet_checks import fleet_findings
    from pyoco_client.cli.diagnosis.gateway_checks import gateway_findings
    from pyoco_client.cli.diagnosis.probes import probe

    settings = connection.settings()
    headers = {
        "Accept": "application/json",
        "Accept-Language": settings.lang or language_of_locale(),
        "User-Agent": f"pyoco-client/{__version__}",
    }
    if settings.api_key is not None:
        headers[settings.api_key_header] = settings.api_key
    seen = probe(
        settings.server,
        headers=headers,
        timeout=connection.timeout or _DEFAULT_TIMEOUT_SEC,
        with_key=settings.api_key is not None,
    )
    target = Target(
        server=shown_address(settings.server),
        source=settings.sources["server"],
        api_key_header=settings.api_key_header,
        has_key=settings.api_key is not None,
    )
    return [*gateway_findings(target, seen, __version__), *fleet_findings(seen)]


def _lines(findings: "Sequence[Finding]") -> Iterator[str]:
    terminal = terminal_environment()
    in_colour = is_terminal() and not (terminal.no_color or terminal.is_dumb)
    width = terminal_width()
    # In a narrow window the text starts below its title.
    indent = _LEVEL_COLUMNS + _CHECK_COLUMNS
    is_narrow = width is not None and width < 2 * indent
    room = None if width is None else width - (2 if is_narrow else indent) - 1
    for finding in findings:
        level = padded(finding.level, _LEVEL_COLUMNS)
        if in_colour:
            level = click.style(level, fg=_COLOURS[finding.level])
        title = f"{level}{padded(finding.check, _CHECK_COLUMNS)}"
        words = wrapped(safe_line(finding.message), room)
        if finding.next_step is not None:
            words += wrapped(f"-> {safe_line(finding.next_step)}", room)
        if is_narrow:
            yield title.rstrip()
            yield from (f"  {line}" for line in words)
        else:
            yield f"{title}{words[0]}"
            yield from (f"{' ' * indent}{line}" for line in words[1:])
