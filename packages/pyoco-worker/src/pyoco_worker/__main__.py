"""`python -m pyoco_worker` is the command `pyoco-worker`."""

from pyoco_worker.cli import main

main()
