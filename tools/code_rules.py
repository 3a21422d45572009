"""Checks rules of this repository that no linter has; `nox -s lint` runs it.

`python tools/code_rules.py FOLDER…` prints each line that breaks a rule and ends with 1, or with 0
if there is none. `EXCEPTIONS` lists the allowed violations, each with its reason.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple


class Finding(NamedTuple):
    """A line that breaks a rule."""

    path: str
    line: int
    rule: str
    what: str

    def __str__(self) -> str:
        """Return the finding in the format of compiler messages."""
        return f"{self.path}:{self.line}: {self.rule}: {self.what}"


RULES: Final[Mapping[str, str]] = {
    "no-eval": "never execute text",
    "no-yaml-load": "use yaml.safe_load, and only for trusted text",
    "no-pickle": "never unpickle received data",
    "no-blind-put": "write buckets by compare-and-set, through jetstream.bucket",
    "no-plain-compare": "compare secrets with hmac.compare_digest",
    "no-bare-error-log": "log the exception with exc_info= or error_fields(...)",
}

# (end of the path, rule, name that breaks the rule): reason.
EXCEPTIONS: Final[Mapping[tuple[str, str, str], str]] = {
    ("pyoco_protocol/jetstream/bucket.py", "no-blind-put", "kv_key"): "the compare-and-set writer",
    (
        "pyoco_testkit/foreign_records.py",
        "no-blind-put",
        "run",
    ): "acts as a foreign worker",
    ("pyoco_client/_async/handle.py", "no-blind-put", "run"): "sends HTTP requests to the gateway",
    ("pyoco_client/_sync/handle.py", "no-blind-put", "run"): "sends HTTP requests to the gateway",
    ("graphs/pinned_graphs.py", "no-plain-compare", "hash"): "the hash of a readable document",
    ("graphs/put.py", "no-plain-compare", "hash"): "the hash of a readable document",
}

_EVALUATORS: Final = frozenset({"eval", "exec"})
_UNSAFE_YAML: Final = frozenset(
    {"load", "load_all", "unsafe_load", "unsafe_load_all", "full_load", "full_load_all"}
)
_PICKLERS: Final = frozenset(
    {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "jsonpickle", "marshal", "shelve"}
)
# The bucket API of nats-py, which can write without an expected revision.
_BUCKET_HANDLES: Final = frozenset({"key_value", "create_key_value"})
_SENDERS: Final = frozenset({"ask", "publish", "publish_async", "request"})
_BUCKET_SUBJECTS: Final = frozenset({"kv_key", "run", "worker"})
_BUCKET_WORDS: Final = frozenset({"bucket", "kv"})
# Levels of error records, and the functions that return the fields of an error.
_ERROR_LEVELS: Final = frozenset({"error", "critical"})
_ERROR_FIELDS: Final = frozenset({"error_fields", "failure_fields"})
# Hashes of content that the caller has sent or may read.
_CONTENT_HASHES: Final = frozenset({"graph_hash", "last_hash", "prev_hash", "request_hash"})
_SECRET_WORDS: Final = frozenset(
    {
        "apikey",
        "credential",
        "credentials",
        "digest",
        "hash",
        "hmac",
        "password",
        "pepper",
        "secret",
        "signature",
        "token",
    }
)
_SECRET_PAIRS: Final = frozenset({("api", "key"), ("signing", "key"), ("plain", "key")})
# Names with these last words hold something about a secret, not the secret.
_ABOUT: Final = frozenset(
    {"bytes", "chars", "count", "file", "header", "id", "ids", "mode", "name", "path", "sec", "url"}
)


def findings_in(source: str, path: str) -> Iterator[Finding]:
    """Yield the lines of a module that break a rule and are no exception."""
    for node in ast.walk(ast.parse(source, path)):
        for rule, name in _broken_by(node):
            if not _is_excepted(path, rule, name):
                yield Finding(path, getattr(node, "lineno", 0), rule, f"{name}; {RULES[rule]}")


def _broken_by(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Name(id=name) if name in _EVALUATORS:
            yield "no-eval", name
        case ast.Attribute(value=ast.Name(id="builtins"), attr=name) if name in _EVALUATORS:
            yield "no-eval", name
        case ast.Attribute(value=ast.Name(id="yaml"), attr=name) if name in _UNSAFE_YAML:
            yield "no-yaml-load", name
        case ast.Import(names=names):
            for alias in names:
                if alias.name.partition(".")[0] in _PICKLERS:
                    yield "no-pickle", alias.name
        case ast.ImportFrom(module=str(module), names=names):
            if module.partition(".")[0] in _PICKLERS:
                yield "no-pickle", module
            for alias in names:
                if module == "yaml" and alias.name in _UNSAFE_YAML:
                    yield "no-yaml-load", alias.name
        case ast.Call(func=called, args=arguments, keywords=keywords):
            yield from _blind_put(called, arguments)
            yield from _bare_error_log(called, keywords)
        case ast.Compare(left=left, ops=operators, comparators=others):
            if any(isinstance(operator, ast.Eq | ast.NotEq) for operator in operators):
                yield from _plain_compare([left, *others])
        case _:
            return


def _blind_put(called: ast.expr, arguments: Iterable[ast.expr]) -> Iterator[tuple[str, str]]:
    name = _name_of(called)
    if name in _BUCKET_HANDLES:
        yield "no-blind-put", name
    elif name in _SENDERS:
        for argument in arguments:
            if isinstance(argument, ast.Call) and _name_of(argument.func) in _BUCKET_SUBJECTS:
                yield "no-blind-put", _name_of(argument.func)
    elif isinstance(called, ast.Attribute) and name == "put":
        receiver = _name_of(called.value)
        if _BUCKET_WORDS & set(_words(receiver)):
            yield "no-blind-put", f"{receiver}.put"


def _bare_error_log(called: ast.expr, keywords: Iterable[ast.keyword]) -> Iterator[tuple[str, str]]:
    if not isinstance(called, ast.Attribute) or called.attr not in _ERROR_LEVELS:
        return
    logger = _name_of(called.value)
    given = {keyword.arg: keyword.value for keyword in keywords}
    named = {
        node.id
        for value in given.values()
        for node in ast.walk(value)
        if isinstance(node, ast.Name)
    }
    if _words(logger)[-1:] == ["log"] and "exc_info" not in given and not named & _ERROR_FIELDS:
        yield "no-bare-error-log", f"{logger}.{called.attr}"


def _plain_compare(operands: Iterable[ast.expr]) -> Iterator[tuple[str, str]]:
    for operand in operands:
        name = _name_of(operand)
        words = _words(name)
        if not words or words[-1] in _ABOUT or name in _CONTENT_HASHES:
            continue
        pairs = set(pairwise(words))
        if _SECRET_WORDS & set(words) or _SECRET_PAIRS & pairs:
            yield "no-plain-compare", name


def _name_of(expression: ast.expr) -> str:
    """Return the last name of `a.b.c`, `c`, `a["c"]` or `a.c.get_secret_value()`."""
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case ast.Call(func=ast.Attribute(value=value, attr="get_secret_value" | "encode")):
            return _name_of(value) if _name_of(value) else "secret"
        case _:
            return ""


def _words(name: str) -> list[str]:
    return [word for word in name.lower().split("_") if word]


def _is_excepted(path: str, rule: str, name: str) -> bool:
    return any(
        path.endswith(end) and (rule, name) == (excepted_rule, excepted_name)
        for end, excepted_rule, excepted_name in EXCEPTIONS
    )


def main(folders: list[str]) -> int:
    """Print the lines that break a rule; return 1 if there are any."""
    found = [
        finding
        for folder in folders
        for path in sorted(Path(folder).rglob("*.py"))
        for finding in findings_in(path.read_text(encoding="utf-8"), path.as_posix())
    ]
    for finding in found:
        sys.stderr.write(f"{finding}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
