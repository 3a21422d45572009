"""Commands about runs: submit, get, tasks."""

from pathlib import Path
from typing import Final

import click

from pyoco_client.cli.arguments import BadArgumentError, merged_params
from pyoco_client.cli.connection import EXIT_FAILED, EXIT_OK, Connection, pass_connection
from pyoco_client.cli.output import print_data, print_note

_RUN_ID = click.option("--run-id", required=True, help="Id of the run, as `submit` printed it.")


@click.command()
@click.option("--flow-name", required=True, help="Name of the flow to run.")
@click.option("--tag", help="Run it on a worker with this tag (the gateway's default otherwise).")
@click.option("--tags", help="Labels to find the run by, separated by commas.")
@click.option(
    "--params-file",
    type=click.Path(path_type=Path),
    help="File with a JSON object (or YAML, if it ends in .yaml or .yml) of params.",
)
@click.option("--params", help="Params as a JSON object; wins over --params-file.")
@click.option(
    "--param",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="One param, repeatable; JSON where it parses, text otherwise. Wins over the other two.",
)
@click.option("--wait", is_flag=True, help="Wait for the end; exit 0 only if it is COMPLETED.")
@click.option(
    "--timeout-sec",
    type=click.FloatRange(min=0, min_open=True),
    help="With --wait: give up waiting after this long. The run itself goes on.",
)
@pass_connection
def submit(
    connection: Connection,
    *,
    flow_name: str,
    tag: str | None,
    tags: str | None,
    params_file: Path | None,
    params: str | None,
    pairs: tuple[str, ...],
    wait: bool,
    timeout_sec: float | None,
) -> int:
    """Queue a run and print its id; with --wait, print how it ended.

    \b
    pyoco-client submit --flow-name hello --param name=world
    pyoco-client submit --flow-name hello --wait
    """
    if timeout_sec is not None and not wait:
        raise BadArgumentError(
            "--timeout-sec has a meaning only with --wait",
            f"pyoco-client submit --flow-name hello --wait --timeout-sec {timeout_sec:g}",
        )
    labels = [label for label in tags.split(",") if label] if tags is not None else None
    merged = merged_params(params_file, params, pairs)
    with connection.open() as client:
        accepted = client.submit_run(flow_name, merged, tag, labels)
        for warning in accepted.get("warnings") or ():
            print_note(f"warning: {warning}")
        if not wait:
            print_data(accepted)
            return EXIT_OK
        run_id = str(accepted["run_id"])
        # Said at once: after Ctrl-C the id is the only way back to the run.
        print_note(f"run {run_id} submitted")
        run = client.wait(run_id, timeout_sec, include="records")
    print_data(run)
    if run["status"] == "COMPLETED":
        return EXIT_OK
    print_note(f"run {run_id} ended {run['status']}: {run.get('error') or 'no reason recorded'}")
    return EXIT_FAILED


@click.command()
@_RUN_ID
@click.option("--records", is_flag=True, help="Include what is recorded of each task.")
@pass_connection
def get(connection: Connection, run_id: str, records: bool) -> int:
    """Print the latest snapshot of a run."""
    with connection.open() as client:
        print_data(client.get_run(_checked(run_id), include="records" if records else None))
    return EXIT_OK


@click.command()
@_RUN_ID
@pass_connection
def tasks(connection: Connection, run_id: str) -> int:
    """Print the task states and task records of a run."""
    with connection.open() as client:
        print_data(client.get_tasks(_checked(run_id)))
    return EXIT_OK


def _checked(run_id: str) -> str:
    from pyoco_protocol.ids import is_run_id

    if not is_run_id(run_id):
        raise BadArgumentError(f"--run-id {run_id!r} is not a run id")
    return run_id


COMMANDS: Final = (submit, get, tasks)
