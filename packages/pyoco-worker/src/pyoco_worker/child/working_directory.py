"""The directory a run works in: empty when the run begins, and gone with what it wrote."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from pyoco_worker.child.frames import RunOrder

_SCRATCH: Final = "scratch"
# Ours, and the one the engine makes for each run. Any other is a surprise to the next run.
_KEPT_IF_EMPTY: Final = frozenset({_SCRATCH, "artifacts"})


class WorkingDirectory:
    """One directory for all runs of a child, one after another.

    Making and removing directories costs more than a short run does, so those that every run
    needs are kept where a run left them empty.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._scratch = str(path / _SCRATCH)
        path.mkdir(parents=True, exist_ok=True)

    def enter(self, order: RunOrder) -> None:
        """Work here, with the run's fencing token in the environment."""
        Path(self._scratch).mkdir(exist_ok=True)
        os.chdir(self._path)
        # Flows read these; the next run overwrites them.
        os.environ.update(  # noqa: TID251 - written for user code, not read
            PYOCO_RUN_ID=order.run_id, PYOCO_ATTEMPT=str(order.attempt), TMPDIR=self._scratch
        )
        tempfile.tempdir = None

    def clean(self) -> None:
        """Remove what the run left; a child that cannot is replaced by one with a fresh place."""
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
