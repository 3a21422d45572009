"""Each rule of tools/code_rules.py finds violations, and the tree follows all rules."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tools" / "code_rules.py"
SOURCES = [*ROOT.glob("packages/*/src"), ROOT / "testkit" / "src", ROOT / "tools"]

VIOLATIONS = {
    "no-eval": [
        "eval('1')",
        "exec(text)",
        "list(map(eval, texts))",
        "import builtins\nbuiltins.exec(text)",
    ],
    "no-yaml-load": [
        "import yaml\nyaml.load(text, Loader=yaml.SafeLoader)",
        "import yaml\nyaml.unsafe_load(text)",
        "from yaml import full_load",
    ],
    "no-pickle": [
        "import pickle",
        "import os, marshal",
        "from pickle import loads",
        "from dill.source import getsource",
    ],
    "no-blind-put": [
        "await kv.put('key', b'value')",
        "await self._auth_bucket.put('key', b'value')",
        "kv = await js.key_value('pyoco_runs')",
        "await js.create_key_value(bucket='pyoco_runs')",
        "await client.publish(subjects.kv_key('pyoco_runs', run_id), data)",
        "await ask(client, names.run(run_id), data)",
    ],
    "no-plain-compare": [
        "secret == given",
        "given != record.secret_hash",
        "pepper.get_secret_value() == other",
        "token.encode() == other",
        "headers['api_key'] == wanted",
        "settings.auth_pepper != former",
        "0 < a == api_key",
        "signature == signed(job)",
        "password == 'x'",
    ],
    "no-bare-error-log": [
        "_log.error('child failed')",
        "log.critical('child failed', extra={'reason': str(error)})",
        "self._log.error('child failed', extra=fields)",
    ],
}
ALLOWED = [
    "given == request_hash",
    "evaluate('1')",
    "model.eval()",
    "import yaml\nyaml.safe_load(text)",
    "import json\njson.load(file)",
    "await box.put(letter)",
    "await bucket.replace(key, data, revision)",
    "subjects.kv_key(bucket, '>')",
    "hmac.compare_digest(secret, given)",
    "record.key_id == key_id",
    "record.pepper_id != other",
    "secret is None",
    "len(secret) == 43",
    "row.tokens_count == 3",
    "monkey == donkey",
    "_log.error('child failed', exc_info=error)",
    "_log.error('child failed', extra={**error_fields(error), 'run_id': run_id})",
    "_log.exception('child failed')",
    "_log.warning('child is slow')",
    "parser.error('wrong option')",
]


@pytest.fixture(scope="module")
def rules() -> ModuleType:
    """Import the script, which belongs to no package."""
    spec = importlib.util.spec_from_file_location("code_rules", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["code_rules"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("rule", "source"),
    [(rule, source) for rule, sources in VIOLATIONS.items() for source in sources],
)
def test_a_rule_finds_its_violations(rules: ModuleType, rule: str, source: str) -> None:
    found = list(rules.findings_in(f"async def f():\n    {source.replace(chr(10), '; ')}", "m.py"))

    assert {finding.rule for finding in found} == {rule}
    assert all((finding.path, finding.line) == ("m.py", 2) for finding in found)


def test_every_rule_has_a_violation_that_proves_it(rules: ModuleType) -> None:
    assert set(VIOLATIONS) == set(rules.RULES)


@pytest.mark.parametrize("source", ALLOWED)
def test_similar_code_that_is_allowed_is_not_reported(rules: ModuleType, source: str) -> None:
    source = f"async def f():\n    {source.replace(chr(10), '; ')}"

    assert list(rules.findings_in(source, "m.py")) == []


def test_an_exception_applies_only_to_its_file(rules: ModuleType) -> None:
    source = "given == stored.hash"

    assert not list(rules.findings_in(source, "x/pyoco_gateway/graphs/put.py"))
    assert list(rules.findings_in(source, "x/pyoco_gateway/graphs/read.py"))


def test_every_exception_is_still_needed(
    rules: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    excepted = dict(rules.EXCEPTIONS)
    monkeypatch.setattr(rules, "EXCEPTIONS", {})
    found = [
        (path.as_posix(), finding.rule, finding.what.partition(";")[0])
        for folder in SOURCES
        for path in folder.rglob("*.py")
        for finding in rules.findings_in(path.read_text(encoding="utf-8"), path.as_posix())
    ]

    for end, rule, name in excepted:
        assert [True for path, *what in found if path.endswith(end) and what == [rule, name]]


def test_the_tree_follows_all_rules() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, SOURCES)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_a_violation_ends_with_code_1_and_is_printed_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text("import os\nimport pickle\n", encoding="utf-8")

    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert done.stderr.startswith(f"{(tmp_path / 'planted.py').as_posix()}:2: no-pickle: pickle;")


def test_only_the_run_store_writes_to_the_bucket_of_runs() -> None:
    """`Bucket` would store a record without the rules of the run's lifecycle."""
    built = re.compile(r"\bBucket\([^)]*runs_bucket")
    found = [
        path.name
        for folder in SOURCES
        for path in folder.rglob("*.py")
        if built.search(path.read_text(encoding="utf-8"))
    ]

    assert found == ["run_store.py"]
