"""The command `rerun`."""

import click

from pyoco_client.cli.arguments import BadArgumentError, run_id_argument
from pyoco_client.cli.connection import Connection, pass_connection
from pyoco_client.cli.display.output import print_note
from pyoco_client.cli.examples import RUN_ID, examples
from pyoco_client.cli.params import ParamsOptions, params_options
from pyoco_client.cli.submission import SubmissionOptions, submission_options


@click.command(
    epilog=examples(
        f"pyoco-client rerun {RUN_ID}",
        f"pyoco-client rerun {RUN_ID} --param name=again --wait",
    )
)
@run_id_argument
@click.option("--tag", help="Run it on a worker with this tag instead.")
@params_options
@submission_options
@pass_connection
def rerun(
    connection: Connection,
    *,
    run_id: str,
    tag: str | None,
    params: ParamsOptions,
    submission: SubmissionOptions,
) -> int:
    """Queue a copy of an earlier run.

    The new run has the flow, tag, labels and params of the old one; params given here win. The old
    run does not change.
    """
    submission.check_timeout()
    changed = params.merged()
    with connection.open() as client:
        old = client.run(run_id).get()
        if old.workflow_yaml_sha256 is not None:
            at = f" --tag {old.tag}" if old.tag else ""
            raise BadArgumentError(
                f"run {run_id} was submitted with a workflow file, which the server does not"
                " return: submit the file again",
                f"pyoco-client submit-yaml --workflow-file flow.yaml --flow-name {old.flow_name}"
                f"{at}",
            )
        handle = client.submit(
            old.flow_name,
            {**old.params, **changed},
            tag=tag or old.tag,
            tags=_labels_for(tag, old.tag, old.tags),
            idempotency_key=submission.checked_key(),
        )
        print_note(f"run {run_id} is run again as {handle.id}")
        return submission.finish(handle)


def _labels_for(
    tag: str | None, old_tag: str | None, old_tags: tuple[str, ...]
) -> list[str] | None:
    # The gateway labels a run without labels by its tag. Such a label does not fit a new tag.
    if tag is not None and list(old_tags) == [old_tag]:
        return None
    return list(old_tags) or None
