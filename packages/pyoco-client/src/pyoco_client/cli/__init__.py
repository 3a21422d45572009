"""The command `pyoco-client`."""

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    try:
        # Late: whoever presses Ctrl-C while it is loaded is answered like everybody.
        from pyoco_client.cli.command import main as run

        return run(arguments)
    except KeyboardInterrupt:
        return 130
