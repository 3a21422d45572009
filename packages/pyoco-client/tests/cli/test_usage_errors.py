import click
import pytest

from pyoco_client.cli.root import client, main
from pyoco_client.cli.usage_errors import corrected_line, problem_of


def mistake(line: str) -> tuple[click.UsageError, list[str]]:
    arguments = line.split()
    with pytest.raises(click.UsageError) as caught:
        client.main(args=arguments.copy(), prog_name="pyoco-client", standalone_mode=False)
    return caught.value, arguments


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("submti --flow-name x", "pyoco-client submit --flow-name x"),
        ("submti", "pyoco-client submit --flow-name hello --param name=world"),
        ("list --stauts FAILED", "pyoco-client list --status FAILED"),
        ("list --stauts=FAILED", "pyoco-client list --status=FAILED"),
        ("list --limit 3 --ful", "pyoco-client list --status FAILED --limit 20"),
        ("dlq lst --tag a", "pyoco-client dlq list --tag a"),
        (
            "list --server http://a --status FAILED --lang ja",
            "pyoco-client --server http://a --lang ja list --status FAILED",
        ),
        ("list --timeout=3", "pyoco-client --timeout=3 list"),
        ("nothing-like-it", "pyoco-client submit --flow-name hello --param name=world --wait"),
    ],
)
def test_a_typing_error_is_answered_with_the_corrected_line(line: str, right: str) -> None:
    error, arguments = mistake(line)
    assert corrected_line(error, arguments) == right


@pytest.mark.parametrize("line", ["--api-key geheim submti x", "--api-key=geheim submti x"])
def test_an_api_key_is_never_printed(line: str) -> None:
    error, arguments = mistake(line)
    assert "geheim" not in corrected_line(error, arguments)
    assert "KEY" in corrected_line(error, arguments)


def test_an_unknown_word_is_answered_with_all_commands() -> None:
    error, _ = mistake("nothing-like-it")
    for name in ("submit", "list-vnext", "dlq", "worker"):
        assert name in problem_of(error)


def test_a_global_option_after_the_command_is_explained() -> None:
    error, _ = mistake("list --server http://a")
    assert problem_of(error) == "--server goes before the command."


@pytest.mark.parametrize(
    ("line", "example", "help_of"),
    [
        ("cancel --run-id", "pyoco-client cancel --run-id ", "pyoco-client cancel"),
        ("dlq redrive --reason", "pyoco-client dlq redrive 1", "pyoco-client dlq redrive"),
        ("--server", "pyoco-client submit --flow-name hello", "pyoco-client"),
    ],
)
def test_an_option_without_its_value_is_answered_with_an_example_of_its_command(
    line: str, example: str, help_of: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 1
    error = capsys.readouterr().err
    assert f"  example: {example}" in error
    assert f"  all options: {help_of} --help\n" in error
