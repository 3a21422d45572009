"""The paths of executions and graphs, where errors have another body than elsewhere."""

from typing import Final
from urllib.parse import unquote

_FIRST_SEGMENTS: Final = frozenset({"executions", "graphs", "waits", "ready-tasks"})


def is_execution_path(path: str) -> bool:
    """Return whether the decoded `path` of a request lies under one of these paths."""
    return path[:1] == "/" and path[1:].partition("/")[0] in _FIRST_SEGMENTS


def path_in_target(target: bytes) -> str:
    """Return the decoded path in the target of a request line, as far as it was received."""
    path = target.partition(b"?")[0].partition(b"#")[0]
    if not path.startswith(b"/"):
        # The form that proxies use: `http://host/path`.
        _, slash, rest = path.partition(b"://")[2].partition(b"/")
        path = slash + rest
    return unquote(path.decode("latin-1"))
