"""Writes files with secrets."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path


def write_secret_files(texts: Mapping[Path, str], *, force: bool) -> None:
    """Write files that only their owner can read, from their creation on; all of them or none.

    Raises FileExistsError if one exists, unless `force` replaces them.
    """
    with ExitStack() as cleanup:
        written = {path: _draft(path) if force else path for path in texts}
        for path, target in written.items():
            # The mode applies at creation: no other user can open the file at any time.
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            cleanup.callback(target.unlink, missing_ok=True)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(texts[path])
        if force:
            for path, target in written.items():
                target.replace(path)
        cleanup.pop_all()


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")
