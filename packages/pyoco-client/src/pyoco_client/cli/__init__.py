"""The command `pyoco-client`."""

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    try:
        # Imported here so that Ctrl-C during the import also ends with exit code 130.
        from pyoco_client.cli.root import main as run

        return run(arguments)
    except KeyboardInterrupt:
        return 130
