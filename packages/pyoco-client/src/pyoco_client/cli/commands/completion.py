"""The command `completion`."""

from typing import Final

import click

from pyoco_client.cli.connection import EXIT_OK
from pyoco_client.cli.display.output import print_styled
from pyoco_client.cli.examples import examples

_PROGRAM: Final = "pyoco-client"
# The environment variable of click's completion protocol; click derives it from the program name.
_VARIABLE: Final = "_PYOCO_CLIENT_COMPLETE"


@click.command(epilog=examples("pyoco-client completion bash"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the script that completes commands and options in a shell.

    \b
    bash  pyoco-client completion bash > ~/.local/share/bash-completion/completions/pyoco-client
    zsh   pyoco-client completion zsh > "${fpath[1]}/_pyoco-client"
    fish  pyoco-client completion fish > ~/.config/fish/completions/pyoco-client.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"{shell} is not supported", context)
    script = kind(context.find_root().command, {}, _PROGRAM, _VARIABLE).source()
    print_styled([script.strip()])
    return EXIT_OK
