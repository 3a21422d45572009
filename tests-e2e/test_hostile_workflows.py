"""Hostile workflow files are refused quickly and do not delay other clients."""

import json
import time

import anyio
import httpx

from pyoco_testkit.health_poller import polled_health
from pyoco_testkit.stack import Stack

# Promised limits.
ANSWER_SEC = 1.0
HEALTH_SEC = 0.25

LARGEST = 262_144
TASKS = '\ntasks: {a: {callable: "m:f"}}\n'


def graph(text: str) -> bytes:
    return json.dumps({"flow": {"graph": text}, "tasks": {"a": {"callable": "m:f"}}}).encode()


def defaults(text: str) -> bytes:
    return f"flow: {{graph: a, defaults: {{x: {text}}}}}{TASKS}".encode()


def filled(text: str, size: int = LARGEST) -> bytes:
    """Return a text repeated up to `size` bytes."""
    data = text.encode()
    return (data * (size // len(data) + 1))[:size]


ALIAS_BOMB = "x0: &x0 [lol]\n" + "".join(
    f"x{n}: &x{n} [{','.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
CORPUS: dict[str, bytes] = {
    "100 KB of [": b"[" * 100_000,
    "256 KB of [": b"[" * LARGEST,
    "256 KB of {": b"{" * LARGEST,
    "repeated [{": filled("[{"),
    "a mapping in a key in a key": filled("? "),
    "a list in a list": filled("- "),
    "deep block": b"".join(b" " * n + b"a:\n" for n in range(500)),
    "alias bomb": ALIAS_BOMB.encode(),
    "many anchors": b"".join(b"k%d: &a%d 1\n" % (n, n) for n in range(9_000)),
    "an alias to itself": b"a: &a [*a]",
    "base-60 integer": defaults("1:" * 1_000 + "1"),
    "base-60 integer of 200 KB": defaults("59:" * 60_000 + "59"),
    "short base-60 integer": defaults("190:20:30"),
    "hex of 200,000 digits": defaults("0x" + "f" * 200_000),
    "4,301 digits": defaults("9" * 4_301),
    "200,000 digits": defaults("9" * 200_000),
    "binary digits": defaults("0b" + "1" * 100_000),
    "infinity": defaults(".inf"),
    "not a number": defaults(".nan"),
    "too large a float": defaults("1e999"),
    "a date": defaults("2026-11-17"),
    "a time": defaults("2026-11-17T10:00:00Z"),
    "10 MB": b"#" * 10_000_000,
    "one byte too many": b"#" * (LARGEST + 1),
    "nothing": b"",
    "NUL": b"flow: \0",
    "256 KB of NUL": b"\0" * LARGEST,
    "not UTF-8": b"flow: \xff\xfe",
    "UTF-16": "flow: x".encode("utf-16"),
    "half a character": b"flow: \xed\xa0\x80",
    "!!python/object/apply": b"!!python/object/apply:os.system [id]",
    "!!python in defaults": defaults("!!python/name:os.system"),
    "!!binary": defaults("!!binary aGk="),
    "merge key": b"a: {b: 1}\n<<: {c: 2}",
    "duplicate key": b"flow: {graph: a}\nflow: {graph: a}",
    "9,000 duplicate keys": b"a: 1\n" * 9_000,
    "tabs": b"\t" * LARGEST,
    "tab as indent": b"flow:\n\tgraph: a",
    "%YAML": b"%YAML 1.1\n---\nflow: {}",
    "many directives": filled("%YAML 1.1\n"),
    "two documents": b"a: 1\n---\nb: 2",
    "65,536 documents": filled("---\n"),
    "a complex key": b"? [a, b]\n: 1",
    "246 KB scalar": b"x" * 246_000,
    "246 KB key": b"? " + b"x" * 246_000 + b"\n: 1",
    "246 KB quoted": b'"' + b"\\x41" * 61_000 + b'"',
    "246 KB of line breaks": b'"' + b"\n" * 246_000 + b'"',
    "256 KB of comment": filled("#\n"),
    "256 KB of spaces": b" " * LARGEST,
    "256 KB of '": b"'" * LARGEST,
    "256 KB of :": b":" * LARGEST,
    "256 KB of &": filled("&a "),
    "256 KB of !": filled("!a "),
    "20,001 values": b"[" + b"1," * 20_001 + b"]",
    "9,000 unknown keys": b"".join(b"k%d: 1\n" % n for n in range(9_000)),
    "flat flow in 60 levels": b"[" * 60 + b'"a" , ' * 19_000,
    "a list": b"- flow",
    "flows": b"flows: {}",
    "graph of ** ": graph('until(cond="9**9**9 > $ctx.a"){a}'),
    "graph of 1,000 loops": graph("repeat(count=2){" * 1_000 + "a" + "}" * 1_000),
    "graph of 13,000 steps": graph(" >> ".join(["a"] * 13_000)),
    "graph of braces": graph("{" * 200_000),
    "graph of parentheses": graph("(" * 65_000),
    "graph of parallel steps": graph("a & " * 16_000),
    "graph of all connections": graph(f"({'a & ' * 8_000}a) >> ({'a & ' * 8_000}a)"),
    "graph of a product": graph("until(cond=\"'a' * 3000000000 == $ctx.a\"){a}"),
    "graph of a format": graph("until(cond=\"'%02000000000d' % $ctx.a\"){a}"),
    "graph of quotes": graph("'" * 60_000),
    "graph of comments": graph("#" * 200_000),
    "graph of 1+1": graph('until(cond="$ctx.a == ' + "1+" * 30_000 + '1"){a}'),
    "pipes that double": json.dumps(
        {
            "flow": {"graph": "pipe(p0)"},
            "tasks": {"a": {"callable": "m:f"}},
            "pipes": {
                **{f"p{n}": f"pipe(p{n + 1}) >> pipe(p{n + 1})" for n in range(100)},
                "p100": "a",
            },
        }
    ).encode(),
}


async def test_a_hostile_file_is_refused_within_a_second_and_delays_no_other_client(
    stack: Stack,
) -> None:
    slow: dict[str, float] = {}
    async with httpx.AsyncClient(base_url=stack.url, timeout=30, trust_env=False) as http:
        # The first file loads the parser of the engine.
        await http.post("/runs/yaml/validate", files={"workflow": b"a: 1"})
        with polled_health(stack.port) as poller:
            for name, file in CORPUS.items():
                for path in ("/runs/yaml", "/runs/yaml/validate"):
                    data = {"flow_name": "x"} if path == "/runs/yaml" else {}
                    began = time.perf_counter()
                    answer = await http.post(path, files={"workflow": file}, data=data)
                    took = time.perf_counter() - began
                    if path == "/runs/yaml":
                        assert 400 <= answer.status_code < 500, f"{name}: {answer.text[:500]}"
                    else:
                        assert answer.status_code == 413 or answer.json()["valid"] is False, name
                    if took > ANSWER_SEC:
                        slow[name] = took
    assert slow == {}
    assert len(poller.response_times) > 10
    assert max(poller.response_times) < HEALTH_SEC
    assert await stack.message_count("PYOCO_WORK") == 0
    assert await stack.message_count("OBJ_pyoco_workflows") == 0


async def test_many_hostile_callers_at_once_do_not_delay_other_clients(stack: Stack) -> None:
    worst = [
        CORPUS[name]
        for name in (
            "graph of 13,000 steps",
            "9,000 unknown keys",
            "many anchors",
            "20,001 values",
        )
    ]
    async with httpx.AsyncClient(base_url=stack.url, timeout=30, trust_env=False) as http:
        await http.post("/runs/yaml/validate", files={"workflow": b"a: 1"})

        async def attack() -> None:
            for file in worst:
                answer = await http.post("/runs/yaml/validate", files={"workflow": file})
                assert answer.json()["valid"] is False

        with polled_health(stack.port) as poller:
            async with anyio.create_task_group() as tasks:
                for _ in range(10):
                    tasks.start_soon(attack)
    assert len(poller.response_times) > 10
    assert poller.p99() < HEALTH_SEC
