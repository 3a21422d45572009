"""Commands that queue a run: submit, submit-yaml, rerun."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pyoco_client.cli.arguments import (
    POSITIVE_SECONDS,
    BadArgumentError,
    labels_in,
    merged_params,
    one_run,
    params_options,
)
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.layouts import ACCEPTED, RUN
from pyoco_client.cli.display.output import (
    Form,
    is_terminal,
    print_note,
    print_record,
    print_warnings,
    run_output,
)
from pyoco_client.cli.examples import RUN_ID, examples, hint_for

if TYPE_CHECKING:
    from pyoco_client import RunHandle

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


def _afterwards(command: _Decorated) -> _Decorated:
    """Give a command what to do once the run is queued."""
    for option in (
        click.option(
            "--timeout-sec",
            type=POSITIVE_SECONDS,
            help="With --wait or --follow: give up after this long. The run itself goes on.",
        ),
        click.option(
            "--follow", is_flag=True, help="Show each change until the end; exit as with --wait."
        ),
        click.option(
            "--wait", is_flag=True, help="Wait for the end; exit 0 only if it is COMPLETED."
        ),
        click.option(
            "--idempotency-key",
            metavar="KEY",
            help="Submissions with the same key are one run, so they can be repeated.",
        ),
    ):
        command = option(command)
    return command


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
@click.option("--tag", help="Run it on a worker with this tag (the gateway's default otherwise).")
@click.option("--tags", help="Labels to find the run by, separated by commas.")
@params_options
@_afterwards
@run_output
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
    idempotency_key: str | None,
    wait: bool,
    follow: bool,
    timeout_sec: float | None,
    form: Form | None,
) -> int:
    """Queue a run of a flow that the workers have.

    Prints the id of the run at once; with --wait, the run when it is over. Params are merged from
    --params-file, --params and each --param, in this order; the later one wins.
    """
    _check_patience(wait or follow, timeout_sec)
    merged = merged_params(params_file, params, pairs)
    with connection.open() as client:
        handle = client.submit(
            flow_name,
            merged,
            tag=tag,
            tags=labels_in(tags),
            idempotency_key=_checked_key(idempotency_key),
        )
        return _finish(handle, form, wait=wait, follow=follow, timeout_sec=timeout_sec)


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
@click.option("--flow-name", required=True, help="What the flow is called; the file does not say.")
@click.option("--tag", help="Run it on a worker with this tag (the gateway's default otherwise).")
@_afterwards
@run_output
@pass_connection
def submit_yaml(
    connection: Connection,
    *,
    workflow_file: Path,
    flow_name: str,
    tag: str | None,
    idempotency_key: str | None,
    wait: bool,
    follow: bool,
    timeout_sec: float | None,
    form: Form | None,
) -> int:
    """Queue a run of a workflow file.

    All faults of a file are told at once, each with its line.
    """
    from pyoco_client.cli.display.progress import progress

    _check_patience(wait or follow, timeout_sec)
    with connection.open() as client:
        workflow = _bytes_of(workflow_file)
        with progress(f"sending {workflow_file.name}"):
            handle = client.submit_yaml(
                workflow,
                flow=flow_name,
                tag=tag,
                idempotency_key=_checked_key(idempotency_key),
            )
        return _finish(handle, form, wait=wait, follow=follow, timeout_sec=timeout_sec)


@click.command(
    epilog=examples(
        f"pyoco-client rerun {RUN_ID}",
        f"pyoco-client rerun {RUN_ID} --param name=again --wait",
    )
)
@one_run
@click.option("--tag", help="Run it on a worker with this tag instead.")
@params_options
@_afterwards
@run_output
@pass_connection
def rerun(
    connection: Connection,
    *,
    run_id: str,
    tag: str | None,
    params_file: Path | None,
    params: str | None,
    pairs: tuple[str, ...],
    idempotency_key: str | None,
    wait: bool,
    follow: bool,
    timeout_sec: float | None,
    form: Form | None,
) -> int:
    """Queue a run like one that was.

    It has the flow, tag, labels and params of the old one; params that are given win. The old run
    stays as it is.
    """
    _check_patience(wait or follow, timeout_sec)
    changed = merged_params(params_file, params, pairs)
    with connection.open() as client:
        old = client.run(run_id).get()
        if old.workflow_yaml_sha256 is not None:
            at = f" --tag {old.tag}" if old.tag else ""
            raise BadArgumentError(
                f"run {run_id} came with a workflow file, which the server does not give back:"
                " submit the file again",
                f"pyoco-client submit-yaml --workflow-file flow.yaml --flow-name {old.flow_name}"
                f"{at}",
            )
        handle = client.submit(
            old.flow_name,
            {**old.params, **changed},
            tag=tag or old.tag,
            tags=_labels_for(tag, old.tag, old.tags),
            idempotency_key=_checked_key(idempotency_key),
        )
        print_note(f"run {run_id} is run again as {handle.id}")
        return _finish(handle, form, wait=wait, follow=follow, timeout_sec=timeout_sec)


def _labels_for(
    tag: str | None, old_tag: str | None, old_tags: tuple[str, ...]
) -> list[str] | None:
    # Labels that the gateway had made of the old tag are not those of a new one.
    if tag is not None and list(old_tags) == [old_tag]:
        return None
    return list(old_tags) or None


def _check_patience(waits: bool, timeout_sec: float | None) -> None:
    if timeout_sec is None or waits:
        return
    context = click.get_current_context()
    raise BadArgumentError(
        "--timeout-sec has a meaning only with --wait or --follow",
        f"{hint_for(context)} --wait --timeout-sec {timeout_sec:g}",
    )


def _checked_key(key: str | None) -> str | None:
    if key is not None and not (1 <= len(key) <= 255 and key.isascii() and key.isprintable()):
        raise BadArgumentError(
            "--idempotency-key must be 1 to 255 printable ASCII characters",
            "pyoco-client submit --flow-name hello --idempotency-key report-2026-11-17",
        )
    return key


def _bytes_of(path: Path) -> bytes:
    try:
        if str(path) == "-":
            return sys.stdin.buffer.read()
        return path.read_bytes()
    except OSError as error:
        raise BadArgumentError(f"--workflow-file {path} cannot be read: {error}") from error


def _finish(
    handle: "RunHandle",
    form: Form | None,
    *,
    wait: bool,
    follow: bool,
    timeout_sec: float | None,
) -> int:
    print_warnings(handle.warnings)
    if not wait and not follow:
        accepted = handle.accepted
        record = {"run_id": handle.id} if accepted is None else accepted.as_dict()
        print_record(record, form, ACCEPTED)
        return EXIT_OK
    from pyoco_client.cli.commands.watch import exit_code_of, show_changes

    # Said at once: after Ctrl-C the id is the only way back to the run.
    if not (follow and is_terminal()):
        print_note(f"run {handle.id} submitted")
    if follow:
        run = show_changes(handle.watch("records", timeout_sec), form)
        if run is None or not run.is_over:
            from pyoco_client.errors import WaitTimeoutError

            last_status = None if run is None else str(run.status)
            raise WaitTimeoutError(handle.id, timeout_sec or 0.0, last_status)
    else:
        run = handle.wait(timeout_sec, include="records")
        print_record(run.as_dict(), form, RUN)
    return exit_code_of(run)
