import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_of_the_readme_runs(example: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    for line in done.stdout.splitlines():
        assert json.loads(line)["service"] == "pyoco-server:worker"


def test_the_readme_has_examples() -> None:
    assert len(EXAMPLES) == 3
