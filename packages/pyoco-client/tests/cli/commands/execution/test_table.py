import shlex

import click
import pytest

from pyoco_client.cli.commands.execution import EXECUTION_COMMANDS, execution
from pyoco_client.cli.examples import examples_of

CONTEXT = click.Context(execution, info_name="execution")


@pytest.mark.parametrize("name", EXECUTION_COMMANDS)
def test_the_summary_of_a_command_is_the_first_sentence_of_its_help(name: str) -> None:
    command = execution.get_command(CONTEXT, name)
    assert command is not None
    assert command.get_short_help_str(200) == EXECUTION_COMMANDS[name].summary


@pytest.mark.parametrize("name", EXECUTION_COMMANDS)
def test_the_first_example_of_a_command_calls_that_command(name: str) -> None:
    command = execution.get_command(CONTEXT, name)
    assert command is not None
    assert shlex.split(examples_of(command)[0])[:3] == ["pyoco-client", "execution", name]
