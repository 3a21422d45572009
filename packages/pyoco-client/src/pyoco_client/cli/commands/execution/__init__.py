"""The command group `execution`."""

from collections.abc import Mapping
from typing import Final

import click

from pyoco_client.cli.examples import examples
from pyoco_client.cli.lazy_group import CommandEntry, LazyGroup

_HERE: Final = "pyoco_client.cli.commands.execution"

EXECUTION_COMMANDS: Final[Mapping[str, CommandEntry]] = {
    "create": CommandEntry(f"{_HERE}.create:create", "Create and start an execution of a graph."),
    "start": CommandEntry(f"{_HERE}.start:start", "Start an execution created with --no-start."),
    "get": CommandEntry(f"{_HERE}.get:get", "Print the state of an execution and its nodes."),
    "list": CommandEntry(
        f"{_HERE}.list:list_executions", "List executions, the latest change first."
    ),
    "events": CommandEntry(f"{_HERE}.events:events", "Print the events of an execution."),
    "watch": CommandEntry(f"{_HERE}.watch:watch", "Watch an execution until it has ended."),
    "cancel": CommandEntry(f"{_HERE}.cancel:cancel", "Cancel one or more executions."),
    "resume": CommandEntry(f"{_HERE}.resume:resume", "Resume a waiting node."),
    "approve": CommandEntry(f"{_HERE}.approve:approve", "Approve a waiting node."),
    "reject": CommandEntry(f"{_HERE}.reject:reject", "Reject a waiting node, which then fails."),
    "archive": CommandEntry(f"{_HERE}.archive:archive", "Hide ended executions from lists."),
}


@click.group(
    cls=LazyGroup,
    entries=EXECUTION_COMMANDS,
    no_args_is_help=False,
    epilog=examples(
        "pyoco-client execution create order-intake --input orderId=4711",
        "pyoco-client execution list --status ACTIVE",
    ),
)
def execution() -> None:
    """Create executions of graphs, follow and control them.

    An execution runs a stored graph of tasks, waits and decisions. Cancel always wins: an execution
    with a cancel request can only end CANCELED.
    """
