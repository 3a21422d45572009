"""Multipart forms over a real socket: invalid ones get a named error."""

from typing import Any

import httpx
from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.http.body_rules import FileLimit
from pyoco_gateway.http.uploads import read_form
from pyoco_protocol.problems import PyocoError, WorkflowTooLargeError

GOOD = b'flow: {graph: a}\ntasks: {a: {callable: "m:f"}}\n'
FORM = "multipart/form-data; boundary=X"
LIMITS = {"workflow": FileLimit(100, WorkflowTooLargeError), "flow_name": None}


def part(name: str, content: bytes = b"x", *, more: bytes = b"") -> bytes:
    head = b'--X\r\nContent-Disposition: form-data; name="' + name.encode() + b'"' + more
    return head + b"\r\n\r\n" + content + b"\r\n"


END = b"--X--\r\n"
WHOLE = part("workflow", GOOD) + part("flow_name")


async def post(gateway: httpx.AsyncClient, body: bytes, content_type: str = FORM) -> httpx.Response:
    return await gateway.post("/runs/yaml", content=body, headers={"Content-Type": content_type})


async def test_file_names_and_the_epilogue_are_ignored(
    gateway: httpx.AsyncClient,
) -> None:
    for name in (b"../../etc/passwd", b"a\\b", b"%00", "\u202egnp.exe".encode(), b""):
        file = part("workflow", GOOD, more=b'; filename="' + name + b'"')
        answer = await post(gateway, file + part("flow_name") + END + b"an epilogue" * 100)
        assert answer.status_code == 200, answer.text


WRONG_FORMS: list[tuple[bytes, str]] = [
    (b"", "ends in the middle"),
    (WHOLE, "ends in the middle"),
    (WHOLE[:-9], "ends in the middle"),
    (b"a preamble" * 20_000 + WHOLE + END, "is not multipart/form-data"),
    (END, "workflow: is missing"),
    (part("workflow", GOOD) + END, "flow_name: is missing"),
    (part("flow_name") + END, "workflow: is missing"),
    (WHOLE + part("flow_name") + END, "flow_name: comes twice"),
    (WHOLE + part("workflow", GOOD) + END, "workflow: comes twice"),
    (WHOLE + part("params", b"{}") + END, "params: is not a part of this form"),
    (WHOLE + part("x" * 3_000) + END, "is not a part of this form"),
    (b"--X\r\nContent-Type: text/plain\r\n\r\nx\r\n" + END, "a part without a name"),
    (part("workflow", GOOD) + part("flow_name", b"x" * 5_000) + END, "more than 4096 bytes"),
    (part("workflow", GOOD) + part("flow_name", b"\xff") + END, "flow_name: is not UTF-8"),
    (part("workflow", GOOD) + part("flow_name", b"a\nb") + END, "flow_name: "),
    (part("workflow", GOOD) + part("flow_name", b"a\0b") + END, "flow_name: "),
    (WHOLE + part("tag", b"a.b") + END, "tag: "),
    (WHOLE + part("tag", b"") + END, "tag: "),
    (part("workflow", GOOD, more=b"\r\nX-Long: " + b"y" * 5_000) + END, "is not multipart"),
    (part("workflow", GOOD, more=b"\r\nX-More: y" * 50) + END, "is not multipart"),
    (part("workflow", b"") + part("flow_name") + END, "workflow: is empty"),
    (part("flow_name") * 1_000 + END, "flow_name: comes twice"),
]


async def test_an_invalid_form_gets_an_error_that_names_the_fault(
    gateway: httpx.AsyncClient,
) -> None:
    for body, fault in WRONG_FORMS:
        answer = await post(gateway, body)
        problem = answer.json()
        assert (answer.status_code, problem["err_id"]) == (422, "ERR-PYOCO-0002"), body[:200]
        assert fault in problem["detail"]
        assert problem["problems"]


CONTENT_TYPES: list[tuple[str, int]] = [
    ("multipart/form-data", 422),
    ("multipart/form-data; boundary=", 422),
    ("multipart/form-data; boundary=" + "x" * 5_000, 422),
    ("multipart/mixed; boundary=X", 415),
    ("application/x-www-form-urlencoded", 415),
    ("application/json", 415),
    ("text/plain", 415),
    ("", 415),
]


async def test_only_multipart_forms_with_a_boundary_are_accepted(
    gateway: httpx.AsyncClient,
) -> None:
    for content_type, status in CONTENT_TYPES:
        assert (await post(gateway, WHOLE + END, content_type)).status_code == status


async def test_a_file_above_its_limit_is_refused(
    gateway: httpx.AsyncClient,
) -> None:
    for size in (262_145, 320_000, 10_000_000):
        answer = await post(gateway, part("workflow", b"#" * size) + part("flow_name") + END)
        problem = answer.json()
        assert (answer.status_code, problem["err_id"]) == (413, "ERR-PYOCO-0016")
        assert problem["max_bytes"] == 262_144


async def test_a_body_without_a_declared_length_has_the_same_limit(
    gateway: httpx.AsyncClient,
) -> None:
    sent = 0

    async def endless() -> Any:
        nonlocal sent
        yield b'--X\r\nContent-Disposition: form-data; name="workflow"\r\n\r\n'
        for _ in range(100):
            sent += 65_536
            yield b"#" * 65_536

    answer = await gateway.post("/runs/yaml", content=endless(), headers={"Content-Type": FORM})
    assert (answer.status_code, answer.json()["err_id"]) == (413, "ERR-PYOCO-0016")


async def test_a_file_at_the_limit_is_accepted(gateway: httpx.AsyncClient) -> None:
    body = part("workflow", GOOD + b"#" * (262_144 - len(GOOD))) + part("flow_name") + END
    assert (await post(gateway, body)).status_code == 200


@given(st.lists(st.binary(max_size=30) | st.sampled_from([b"--X", b"\r\n", b"--", b":", b'"'])))
def test_any_bytes_are_a_form_or_a_named_error(chunks: list[bytes]) -> None:
    async def stream() -> Any:
        yield b"--X\r\n"
        for chunk in chunks:
            yield chunk

    reading = read_form(FORM, stream(), LIMITS)
    try:
        reading.send(None)
    except (StopIteration, PyocoError):
        return
    raise AssertionError("the parser waits for more")
