"""The working directory of runs: empty when a run starts, cleaned when it has ended."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from pyoco_worker.child.frames import RunOrder

_SCRATCH: Final = "scratch"
# Directories that this module and the engine create for every run. They are kept if empty; any
# other directory is removed.
_KEPT_IF_EMPTY: Final = frozenset({_SCRATCH, "artifacts"})


class WorkingDirectory:
    """One directory that all runs of a child use in turn.

    Creating and removing directories takes longer than a short run, so directories that every run
    needs are kept if they are empty.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._scratch = str(path / _SCRATCH)
        path.mkdir(parents=True, exist_ok=True)

    def enter(self, order: RunOrder) -> None:
        """Change to the directory, and put the run's id and attempt into the environment."""
        Path(self._scratch).mkdir(exist_ok=True)
        os.chdir(self._path)
        # Flows read these variables; the next run overwrites them.
        os.environ.update(  # noqa: TID251 - written for user code, not read
            PYOCO_RUN_ID=order.run_id, PYOCO_ATTEMPT=str(order.attempt), TMPDIR=self._scratch
        )
        tempfile.tempdir = None

    def clean(self) -> None:
        """Remove the files of the run; if that fails, exit and let a new child replace this one."""
        try:
            os.chdir(self._path)
            with os.scandir(self._path) as entries:
                for entry in entries:
                    _remove(entry)
        except OSError:
            os._exit(1)


def _remove(entry: os.DirEntry[str]) -> None:
    if not entry.is_dir(follow_symlinks=False):
        Path(entry.path).unlink()
        return
    if entry.name in _KEPT_IF_EMPTY:
        with os.scandir(entry.path) as inside:
            if next(inside, None) is None:
                return
    shutil.rmtree(entry.path)
