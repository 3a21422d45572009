"""The worker: takes runs from the queue, executes Pyoco flows in child processes, reports."""

from importlib.metadata import version

__version__ = version("pyoco-worker")
