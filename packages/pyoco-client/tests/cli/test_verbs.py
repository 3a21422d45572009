import shlex

import click
import pytest

from pyoco_client.cli.command import client
from pyoco_client.cli.examples import examples_of
from pyoco_client.cli.verbs import VERBS

CONTEXT = click.Context(client, info_name="pyoco-client")
SPECIFIED = [
    "submit",
    "submit-yaml",
    "get",
    "tasks",
    "list",
    "list-vnext",
    "watch",
    "cancel",
    "workers",
    "metrics",
]


# Their help begins with more than fits into the list.
SHORTENED = {"doctor", "context", "open", "completion"}


@pytest.mark.parametrize("name", sorted(VERBS.keys() - SHORTENED))
def test_the_list_of_commands_says_of_each_what_its_own_help_says(name: str) -> None:
    command = client.get_command(CONTEXT, name)
    assert command is not None
    assert command.get_short_help_str(200) == VERBS[name].summary


def test_the_verbs_of_the_specification_are_all_there() -> None:
    assert set(SPECIFIED) <= set(client.list_commands(CONTEXT))


@pytest.mark.parametrize("name", VERBS)
def test_the_first_example_of_a_command_is_one_of_itself(name: str) -> None:
    command = client.get_command(CONTEXT, name)
    assert command is not None
    program, *words = shlex.split(examples_of(command)[0])
    assert program == "pyoco-client"
    assert name in words


# Where the specification names options, they are there under the same names.
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("submit", "--flow-name --params --params-file --param --tag --tags"),
        ("submit-yaml", "--workflow-file --flow-name --tag"),
        ("get", "--records"),
        ("list", "--status --flow --tag --full --limit --output"),
        ("list-vnext", "--status --flow --tag --full --limit --output"),
        ("list-vnext", "--updated-after --cursor --workflow-yaml-sha256"),
        ("watch", "--records --since --timeout-sec --max-events --until-terminal --output"),
        ("cancel", "--run-id --wait --timeout-sec"),
        ("workers", "--scope --state --include-hidden --limit --output"),
    ],
)
def test_a_command_has_the_options_that_earlier_releases_had(name: str, options: str) -> None:
    command = client.get_command(CONTEXT, name)
    assert command is not None
    known = {word for parameter in command.params for word in parameter.opts}
    assert set(options.split()) <= known
