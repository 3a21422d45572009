"""All commands: the module of each, and its line in the list of commands.

A command's module is imported when the command is called, so that `--help` and `--version` start
fast.
"""

from collections.abc import Mapping
from typing import Final

from pyoco_client.cli.lazy_group import CommandEntry

_CLI: Final = "pyoco_client.cli.commands"

COMMANDS: Final[Mapping[str, CommandEntry]] = {
    "submit": CommandEntry(f"{_CLI}.submit:submit", "Queue a run of a flow that the workers have."),
    "submit-yaml": CommandEntry(
        f"{_CLI}.submit_yaml:submit_yaml", "Queue a run of a workflow file."
    ),
    "rerun": CommandEntry(f"{_CLI}.rerun:rerun", "Queue a copy of an earlier run."),
    "get": CommandEntry(f"{_CLI}.get:get", "Print the latest snapshot of a run."),
    "tasks": CommandEntry(f"{_CLI}.tasks:tasks", "Print the task states and records of a run."),
    "logs": CommandEntry(f"{_CLI}.logs:logs", "Print the output of a run."),
    "list": CommandEntry(f"{_CLI}.list:list_runs", "List runs, the latest change first."),
    "list-vnext": CommandEntry(
        f"{_CLI}.list_vnext:list_vnext", "List runs and their changes, page by page."
    ),
    "watch": CommandEntry(f"{_CLI}.watch:watch", "Watch a run until it has ended."),
    "cancel": CommandEntry(f"{_CLI}.cancel:cancel", "Cancel a run, or all matching runs."),
    "execution": CommandEntry(
        f"{_CLI}.execution:execution", "Create executions of graphs, follow and control them."
    ),
    "graph": CommandEntry(f"{_CLI}.graph:graph", "Store, validate and list graphs."),
    "waits": CommandEntry(
        f"{_CLI}.waits:waits", "List the nodes that wait for a person or an event."
    ),
    "workers": CommandEntry(f"{_CLI}.workers:workers", "List the workers and their current runs."),
    "worker": CommandEntry(f"{_CLI}.worker:worker", "Hide a worker from lists, or show it again."),
    "queues": CommandEntry(
        f"{_CLI}.queues:queues", "List the waiting runs and the workers of each tag."
    ),
    "dlq": CommandEntry(f"{_CLI}.dlq:dlq", "List, redrive and discard dead letters."),
    "metrics": CommandEntry(f"{_CLI}.metrics:metrics", "Print the metrics of the gateway."),
    "health": CommandEntry(f"{_CLI}.health:health", "Print whether the gateway serves requests."),
    "doctor": CommandEntry(f"{_CLI}.doctor:doctor", "Check the installation and say what to fix."),
    "context": CommandEntry(
        f"{_CLI}.context:context", "Store gateways under names and choose one."
    ),
    "open": CommandEntry(f"{_CLI}.open:open_page", "Open the gateway's page in the browser."),
    "completion": CommandEntry(
        f"{_CLI}.completion:completion", "Print the completion script of a shell."
    ),
}
