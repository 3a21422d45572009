"""The command `logs`."""

from typing import TYPE_CHECKING, Final

import click

from pyoco_client.cli.arguments import BadArgumentError, run_id_argument
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.cells import moment
from pyoco_client.cli.display.output import (
    Form,
    output_option,
    print_data,
    print_json_line,
    print_line,
)
from pyoco_client.cli.examples import RUN_ID, examples

if TYPE_CHECKING:
    from pyoco_client.models import LogLine

_FORMS: Final = (Form.TEXT, Form.WIDE, Form.JSON, Form.JSONL)


@click.command(
    epilog=examples(
        f"pyoco-client logs {RUN_ID}",
        f"pyoco-client logs {RUN_ID} -f",
        f"pyoco-client logs {RUN_ID} --stream stdout --attempt all --output wide",
    )
)
@run_id_argument
@click.option("-f", "--follow", is_flag=True, help="Print new lines until the run has ended.")
@click.option("--task", help="Only the output of this task.")
@click.option("--stream", type=click.Choice(["stdout", "stderr"]), help="Only this stream.")
@click.option("--attempt", help="Only this attempt: a number, latest or all.  [default: latest]")
@output_option(*_FORMS, otherwise="text")
@pass_connection
def logs(
    connection: Connection,
    *,
    run_id: str,
    follow: bool,
    task: str | None,
    stream: str | None,
    attempt: str | None,
    form: Form | None,
) -> int:
    """Print the output of a run."""
    if attempt is not None and attempt not in ("latest", "all") and not attempt.isdecimal():
        raise BadArgumentError(
            f"--attempt {attempt!r} is neither a number nor latest nor all",
            f"pyoco-client logs {run_id} --attempt all",
        )
    with connection.open() as client:
        handle = client.run(run_id)
        if follow:
            # Following waits for an absent gateway. This request fails at once if it was never up.
            handle.get()
        lines = handle.logs(follow, task=task, stream=stream, attempt=attempt)
        if form is Form.JSON:
            print_data([line.as_dict() for line in lines])
            return EXIT_OK
        for line in lines:
            if form is Form.JSONL:
                print_json_line(line.as_dict())
            else:
                print_line(_in_full(line) if form is Form.WIDE else line.text)
    return EXIT_OK


def _in_full(line: "LogLine") -> str:
    return f"{moment(line.ts)}  {line.attempt}  {line.task or '-'}  {line.stream}  {line.text}"
