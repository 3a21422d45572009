"""The command `completion`: what a shell needs to complete our command lines."""

from typing import Final

import click

from pyoco_client.cli.connection import EXIT_OK
from pyoco_client.cli.display.output import print_dressed
from pyoco_client.cli.examples import examples

_PROGRAM: Final = "pyoco-client"
# The variable by which click knows that a shell asks; its name follows from the program's.
_VARIABLE: Final = "_PYOCO_CLIENT_COMPLETE"


@click.command(epilog=examples("pyoco-client completion bash"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the script that makes a shell complete our commands and options.

    \b
    bash  pyoco-client completion bash > ~/.local/share/bash-completion/completions/pyoco-client
    zsh   pyoco-client completion zsh > "${fpath[1]}/_pyoco-client"
    fish  pyoco-client completion fish > ~/.config/fish/completions/pyoco-client.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"nothing is known of {shell}", context)
    script = kind(context.find_root().command, {}, _PROGRAM, _VARIABLE).source()
    print_dressed([script.strip()])
    return EXIT_OK
