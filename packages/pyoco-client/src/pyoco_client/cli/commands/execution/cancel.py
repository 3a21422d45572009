"""The command `execution cancel`."""

import time

import click

from pyoco_client.cli.arguments import POSITIVE_SECONDS, BadArgumentError
from pyoco_client.cli.bulk import is_single
from pyoco_client.cli.connection import EXIT_FAILED, Connection, pass_connection
from pyoco_client.cli.display.execution_layouts import COMMAND
from pyoco_client.cli.display.output import (
    Form,
    print_note,
    print_record,
    print_records,
    run_output,
)
from pyoco_client.cli.examples import EXECUTION_ID, examples
from pyoco_client.cli.executions_in_bulk import execution_ids_in, for_each
from pyoco_client.errors import WaitTimeoutError


@click.command(
    epilog=examples(
        f"pyoco-client execution cancel {EXECUTION_ID} --reason 'wrong order'",
        f"pyoco-client execution cancel {EXECUTION_ID} --wait --timeout-sec 60",
        "pyoco-client execution list --label vip --output name | pyoco-client execution cancel -",
    )
)
@click.argument("words", nargs=-1, metavar="[EXECUTION_ID|-]...")
@click.option("--execution-id", "more", multiple=True, help="An execution to cancel; repeatable.")
@click.option("--reason", help="The reason, stored with the execution.")
@click.option("--wait", is_flag=True, help="Wait until each has ended; exit 1 if one has not.")
@click.option(
    "--timeout-sec", type=POSITIVE_SECONDS, help="With --wait: maximum time to wait in total."
)
@run_output
@pass_connection
def cancel(
    connection: Connection,
    *,
    words: tuple[str, ...],
    more: tuple[str, ...],
    reason: str | None,
    wait: bool,
    timeout_sec: float | None,
    form: Form | None,
) -> int:
    """Cancel one or more executions.

    Give their ids as arguments, by --execution-id, or on stdin (-). A cancel is always accepted: an
    execution that has ended does not change. Nodes in work get some time to stop.
    """
    if timeout_sec is not None and not wait:
        raise BadArgumentError("--timeout-sec needs --wait")
    words = (*words, *more)
    ids, single = execution_ids_in(words), is_single(words)
    with connection.open() as client:
        handles = {each: client.executions.handle(each) for each in ids}
        code, answers = for_each(
            ids, lambda each: handles[each].cancel(reason=reason), single=single
        )
        records = [answer.as_dict() for answer in answers]
        end_at = None if timeout_sec is None else time.monotonic() + timeout_sec
        for record in records if wait else ():
            left = None if end_at is None else max(end_at - time.monotonic(), 0.001)
            try:
                ended = handles[record["executionId"]].wait(left)
            except WaitTimeoutError as error:
                status = error.last_status or "in an unknown state"
                print_note(f"execution {record['executionId']} is {status} after {timeout_sec:g} s")
                code = EXIT_FAILED
            else:
                record |= {"status": ended.status.value, "seq": ended.seq}
    if single:
        print_record(records[0], form, COMMAND)
    else:
        print_records(records, form, COMMAND)
    return code
