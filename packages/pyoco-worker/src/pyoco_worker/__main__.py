"""The program `pyoco-worker`, also as `python -m pyoco_worker`."""

from pyoco_protocol.process_secrets import hide_environment


def main() -> None:
    """Hide the environment from flows, then run the command."""
    hide_environment()
    # Loaded once, in the program that is executed the second time.
    from pyoco_worker.cli import main as run

    run()


if __name__ == "__main__":
    main()
