"""The command `submit-yaml`."""

import sys
from pathlib import Path

import click

from pyoco_client.cli.arguments import BadArgumentError, cannot_read
from pyoco_client.cli.connection import Connection, pass_connection
from pyoco_client.cli.examples import examples
from pyoco_client.cli.submission import SubmissionOptions, submission_options, tag_option


@click.command(
    epilog=examples(
        "pyoco-client submit-yaml --workflow-file flow.yaml --flow-name hello-from-a-file"
        " --tag default",
        "pyoco-client submit-yaml --workflow-file flow.yaml --flow-name hello-from-a-file --wait",
    )
)
@click.option(
    "--workflow-file",
    required=True,
    type=click.Path(path_type=Path),
    help="The workflow, a flow.yaml; - is stdin.",
)
@click.option("--flow-name", required=True, help="Name of the flow; the file does not contain it.")
@tag_option
@submission_options
@pass_connection
def submit_yaml(
    connection: Connection,
    *,
    workflow_file: Path,
    flow_name: str,
    tag: str | None,
    submission: SubmissionOptions,
) -> int:
    """Queue a run of a workflow file.

    All problems of a file are reported at once, each with its line.
    """
    from pyoco_client.cli.display.progress import progress

    submission.check_timeout()
    with connection.open() as client:
        workflow = _bytes_of(workflow_file)
        with progress(f"sending {workflow_file.name}"):
            handle = client.submit_yaml(
                workflow, flow=flow_name, tag=tag, idempotency_key=submission.checked_key()
            )
        return submission.finish(handle)


def _bytes_of(path: Path) -> bytes:
    try:
        if str(path) == "-":
            return sys.stdin.buffer.read()
        return path.read_bytes()
    except OSError as error:
        raise BadArgumentError(cannot_read(f"--workflow-file {path}", error)) from error
