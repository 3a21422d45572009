"""The command `submit`."""

import click

from pyoco_client.cli.connection import Connection, pass_connection
from pyoco_client.cli.examples import examples
from pyoco_client.cli.params import ParamsOptions, params_options
from pyoco_client.cli.submission import SubmissionOptions, submission_options, tag_option


@click.command(
    epilog=examples(
        "pyoco-client submit --flow-name hello --param name=world",
        """pyoco-client submit --flow-name hello --params '{"name": "世界"}' --wait""",
        "pyoco-client submit --flow-name hello --params-file params.yaml --param name=world",
        "pyoco-client submit --flow-name countdown --param seconds=2 --follow",
        "pyoco-client submit --flow-name hello --tag default --tags nightly,report --output name",
    )
)
@click.option("--flow-name", required=True, help="Name of the flow to run.")
@tag_option
@click.option("--tags", help="Labels to find the run by, separated by commas.")
@params_options
@submission_options
@pass_connection
def submit(
    connection: Connection,
    *,
    flow_name: str,
    tag: str | None,
    tags: str | None,
    params: ParamsOptions,
    submission: SubmissionOptions,
) -> int:
    """Queue a run of a flow that the workers have.

    Prints the run id at once; with --wait, the run after it has ended. Params are merged from
    --params-file, --params and each --param, in this order; the later one wins.
    """
    submission.check_timeout()
    merged = params.merged()
    with connection.open() as client:
        handle = client.submit(
            flow_name,
            merged,
            tag=tag,
            tags=_labels_in(tags),
            idempotency_key=submission.checked_key(),
        )
        return submission.finish(handle)


def _labels_in(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [label for label in (part.strip() for part in text.split(",")) if label]
