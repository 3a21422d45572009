"""Generates `pyoco_client/_sync` from `pyoco_client/_async`: the same code without `await`.

Run `python packages/pyoco-client/tools/generate_sync.py` after each change of `_async`. It formats
the generated files with ruff, if ruff is installed. A test fails while the two differ.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[1] / "src" / "pyoco_client"

# Applied in this order, each to the whole text.
RULES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\basync (def|with|for)\b", r"\1"),
        (r"`async with`", "`with`"),
        (r"\bawait ", ""),
        (r"\bfrom anyio import sleep\b", "from time import sleep"),
        (r"\bAsync(?=[A-Z])", ""),
        (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
        (r"\basynccontextmanager\b", "contextmanager"),
        (r"\baclosing\b", "closing"),
        (r"\baclose\b", "close"),
        (r"\baread\b", "read"),
        (r"\baiter_bytes\b", "iter_bytes"),
        (r"\b_async\b", "_sync"),
        (
            r"The async client\. .*",
            'Generated from `pyoco_client._async` by tools/generate_sync.py: change it there."""',
        ),
    )
)


def as_sync(text: str) -> str:
    """Return the text of a module without `async` and `await`."""
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    return text


def generate(package: Path = PACKAGE) -> None:
    """Replace every module of `_sync`."""
    target = package / "_sync"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for source in sorted((package / "_async").glob("*.py")):
        text = as_sync(source.read_text(encoding="utf-8"))
        (target / source.name).write_text(text, encoding="utf-8")
    if ruff := shutil.which("ruff"):
        subprocess.run([ruff, "check", "--select", "I", "--fix", "-q", str(target)], check=True)
        subprocess.run([ruff, "format", "-q", str(target)], check=True)


if __name__ == "__main__":
    generate()
