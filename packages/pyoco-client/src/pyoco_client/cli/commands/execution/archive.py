"""The command `execution archive`."""

import click

from pyoco_client.cli.bulk import is_single
from pyoco_client.cli.connection import Connection, pass_connection
from pyoco_client.cli.display.execution_layouts import COMMAND
from pyoco_client.cli.display.output import Form, print_record, print_records, run_output
from pyoco_client.cli.examples import EXECUTION_ID, examples
from pyoco_client.cli.executions_in_bulk import execution_ids_in, for_each


@click.command(
    epilog=examples(
        f"pyoco-client execution archive {EXECUTION_ID}",
        "pyoco-client execution list --status COMPLETED --output name"
        " | pyoco-client execution archive -",
    )
)
@click.argument("words", nargs=-1, metavar="[EXECUTION_ID|-]...")
@click.option("--execution-id", "more", multiple=True, help="An execution to hide; repeatable.")
@click.option("--reason", help="The reason, stored with the execution.")
@run_output
@pass_connection
def archive(
    connection: Connection,
    *,
    words: tuple[str, ...],
    more: tuple[str, ...],
    reason: str | None,
    form: Form | None,
) -> int:
    """Hide ended executions from lists.

    Nothing is deleted: `execution list --archived any` shows them.
    """
    words = (*words, *more)
    ids, single = execution_ids_in(words), is_single(words)
    with connection.open() as client:
        code, answers = for_each(
            ids, lambda each: client.executions.handle(each).archive(reason=reason), single=single
        )
    records = [answer.as_dict() for answer in answers]
    if single:
        print_record(records[0], form, COMMAND)
    else:
        print_records(records, form, COMMAND)
    return code
