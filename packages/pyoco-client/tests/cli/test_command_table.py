import shlex

import click
import pytest

from pyoco_client.cli.command_table import COMMANDS
from pyoco_client.cli.examples import examples_of
from pyoco_client.cli.root import client

CONTEXT = click.Context(client, info_name="pyoco-client")
# Commands whose help begins with a sentence that is too long for the list.
SHORTENED = {"doctor", "context", "open", "completion"}


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - SHORTENED))
def test_the_summary_of_a_command_is_the_first_sentence_of_its_help(name: str) -> None:
    command = client.get_command(CONTEXT, name)
    assert command is not None
    assert command.get_short_help_str(200) == COMMANDS[name].summary


@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_example_of_a_command_calls_that_command(name: str) -> None:
    command = client.get_command(CONTEXT, name)
    assert command is not None
    program, *words = shlex.split(examples_of(command)[0])
    assert program == "pyoco-client"
    assert name in words


@pytest.mark.parametrize("name", ["graph", "dlq", "context", "worker", "execution"])
def test_the_list_of_a_group_cuts_no_sentence(name: str) -> None:
    group = client.get_command(CONTEXT, name)
    assert isinstance(group, click.Group)
    _, _, commands = group.get_help(click.Context(group)).partition("Commands:")
    assert commands
    assert "..." not in commands
