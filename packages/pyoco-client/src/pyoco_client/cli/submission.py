"""Options of the commands that submit a run, and what these commands do after the submission."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pyoco_client.cli.arguments import (
    POSITIVE_SECONDS,
    BadArgumentError,
    checked_idempotency_key,
    with_options,
)
from pyoco_client.cli.connection import EXIT_OK
from pyoco_client.cli.display.layouts import ACCEPTED, RUN
from pyoco_client.cli.display.outages import Outages
from pyoco_client.cli.display.output import (
    Form,
    is_terminal,
    print_note,
    print_record,
    print_warnings,
    run_output,
)
from pyoco_client.cli.examples import hint_for

if TYPE_CHECKING:
    from pyoco_client import RunHandle


@dataclass(frozen=True, slots=True)
class SubmissionOptions:
    """The idempotency key of a submission, and whether and how to wait for the run."""

    idempotency_key: str | None
    wait: bool
    follow: bool
    timeout_sec: float | None
    form: Form | None

    def check_timeout(self) -> None:
        """Raise BadArgumentError for `--timeout-sec` without `--wait` or `--follow`."""
        if self.timeout_sec is None or self.wait or self.follow:
            return
        example = hint_for(click.get_current_context())
        raise BadArgumentError(
            "--timeout-sec needs --wait or --follow",
            f"{example} --wait --timeout-sec {self.timeout_sec:g}",
        )

    def checked_key(self) -> str | None:
        """Return the idempotency key; raise BadArgumentError if a header cannot carry it."""
        return checked_idempotency_key(
            self.idempotency_key,
            "pyoco-client submit --flow-name hello --idempotency-key report-2026-11-17",
        )

    def finish(self, handle: "RunHandle") -> int:
        """Print the accepted run, or wait for its end as the options say; return the exit code."""
        print_warnings(handle.warnings)
        if not self.wait and not self.follow:
            accepted = handle.accepted
            record = {"run_id": handle.id} if accepted is None else accepted.as_dict()
            print_record(record, self.form, ACCEPTED)
            return EXIT_OK
        from pyoco_client.cli.run_changes import exit_code_of, show_changes

        # Printed before the wait: after Ctrl-C the user needs the id to find the run.
        if not (self.follow and is_terminal()):
            print_note(f"run {handle.id} submitted")
        if self.follow:
            outages = Outages()
            runs = handle.watch("records", self.timeout_sec, on_outage=outages.take)
            run = show_changes(runs, self.form, outages)
            if run is None or not run.is_over:
                from pyoco_client.errors import WaitTimeoutError

                last_status = None if run is None else str(run.status)
                raise WaitTimeoutError(handle.id, self.timeout_sec or 0.0, last_status)
        else:
            run = handle.wait(self.timeout_sec, include="records")
            print_record(run.as_dict(), self.form, RUN)
        return exit_code_of(run)


def submission_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of a submission to a command; the command gets them as `submission`."""

    @functools.wraps(command)
    def with_submission(
        *args: Any,
        idempotency_key: str | None,
        wait: bool,
        follow: bool,
        timeout_sec: float | None,
        form: Form | None,
        **options: Any,
    ) -> int:
        submission = SubmissionOptions(idempotency_key, wait, follow, timeout_sec, form)
        return command(*args, submission=submission, **options)

    return with_options(
        with_submission,
        click.option(
            "--idempotency-key",
            metavar="KEY",
            help="Submissions with the same key make one run, so they can be repeated.",
        ),
        click.option(
            "--wait", is_flag=True, help="Wait for the run to end; exit 0 only if it is COMPLETED."
        ),
        click.option(
            "--follow", is_flag=True, help="Show each change until the end; exit as with --wait."
        ),
        click.option(
            "--timeout-sec",
            type=POSITIVE_SECONDS,
            help="With --wait or --follow: stop waiting after this time. The run continues.",
        ),
        run_output,
    )


tag_option = click.option(
    "--tag", help="Run it on a worker with this tag (the gateway's default otherwise)."
)
