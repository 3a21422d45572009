"""Module sizes stay below the limit, and the paths named in noxfile.py exist."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_LINES = 400


def test_no_source_module_is_longer_than_the_limit() -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in ROOT.glob("packages/*/src/**/*.py")
    }

    assert lengths
    assert {path: length for path, length in lengths.items() if length > MAX_LINES} == {}


def test_the_tests_that_lowest_runs_exist() -> None:
    chosen = lowest_paths()

    assert set(chosen) == {path.name for path in (ROOT / "packages").iterdir() if path.is_dir()}
    for package, paths in chosen.items():
        for path in paths:
            assert (ROOT / "packages" / package / "tests" / path).exists(), f"{package}: {path}"


def lowest_paths() -> dict[str, list[str]]:
    """Return the constant LOWEST of noxfile.py, which this environment cannot import."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LOWEST":
            paths: dict[str, list[str]] = ast.literal_eval(node.value)
            return paths
    raise LookupError("noxfile.py has no constant LOWEST")
