"""All commands: where each is found, and its line in the list of commands.

Nothing is imported from here before it is called, so that `--help` and `--version` are quick.
"""

from collections.abc import Mapping
from typing import Final

from pyoco_client.cli.lazy_group import Verb

_CLI: Final = "pyoco_client.cli.commands"

VERBS: Final[Mapping[str, Verb]] = {
    "submit": Verb(f"{_CLI}.submit:submit", "Queue a run of a flow that the workers have."),
    "submit-yaml": Verb(f"{_CLI}.submit:submit_yaml", "Queue a run of a workflow file."),
    "rerun": Verb(f"{_CLI}.submit:rerun", "Queue a run like one that was."),
    "get": Verb(f"{_CLI}.get:get", "Print the latest snapshot of a run."),
    "tasks": Verb(f"{_CLI}.get:tasks", "Print the task states and records of a run."),
    "logs": Verb(f"{_CLI}.logs:logs", "Print what the tasks of a run printed."),
    "list": Verb(f"{_CLI}.list:list_runs", "List runs, the latest change first."),
    "list-vnext": Verb(f"{_CLI}.list:list_vnext", "List changes of runs, page by page."),
    "watch": Verb(f"{_CLI}.watch:watch", "Watch a run until it is over."),
    "cancel": Verb(f"{_CLI}.cancel:cancel", "Cancel a run, or all that match."),
    "workers": Verb(f"{_CLI}.fleet:workers", "List the workers, and at what they work."),
    "worker": Verb(f"{_CLI}.fleet:worker", "Hide a worker from lists, or show it again."),
    "queues": Verb(f"{_CLI}.fleet:queues", "List what waits for which tag."),
    "dlq": Verb(f"{_CLI}.dlq:dlq", "List, redrive and discard dead letters."),
    "metrics": Verb(
        f"{_CLI}.fleet:metrics",
        "Print the metrics of the gateway.",
    ),
    "health": Verb(f"{_CLI}.fleet:health", "Print whether the gateway serves requests."),
    "doctor": Verb(f"{_CLI}.doctor:doctor", "Say what is wrong, and what to do about it."),
    "context": Verb(f"{_CLI}.context:context", "Name gateways, and choose the one in use."),
    "open": Verb(f"{_CLI}.open:open_page", "Open the gateway's page in the browser."),
    "completion": Verb(f"{_CLI}.completion:completion", "Print completions for a shell."),
}
