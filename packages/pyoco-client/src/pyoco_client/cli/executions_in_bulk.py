"""Commands for several executions, given by their ids."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyoco_client.cli.arguments import BadArgumentError, checked_execution_id
from pyoco_client.cli.bulk import ids_in
from pyoco_client.cli.connection import EXIT_FAILED, EXIT_OK
from pyoco_client.cli.display.output import print_note, print_problem
from pyoco_client.errors import PyocoError

if TYPE_CHECKING:
    from pyoco_client.execution_models import CommandAnswer


def execution_ids_in(words: Sequence[str]) -> list[str]:
    """Return the execution ids in arguments, or on stdin for `-`; at least one is required."""
    if not words:
        raise BadArgumentError("Missing argument 'EXECUTION_ID'.")
    return [checked_execution_id(word) for word in ids_in(words)]


def for_each(
    execution_ids: Sequence[str], action: Callable[[str], "CommandAnswer"], *, single: bool
) -> tuple[int, list["CommandAnswer"]]:
    """Return the exit code and the answers; without `single`, an error is only printed."""
    code = EXIT_OK
    answers = []
    for execution_id in execution_ids:
        try:
            answers.append(action(execution_id))
        except PyocoError as error:
            if single or error.status is None:
                raise
            print_problem(error)
            # A rejection does not say which execution it is about.
            print_note(f"  execution id: {execution_id}")
            code = EXIT_FAILED
    return code, answers
