"""`python -m pyoco_worker` runs the command `pyoco-worker`."""

from pyoco_worker.cli import main

main()
