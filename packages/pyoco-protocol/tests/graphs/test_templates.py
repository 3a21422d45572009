"""Templates in wait keys, prompts and the params of runs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.graphs.facts import MISSING, Fact, Missing, fact_from_json, fact_of
from pyoco_protocol.graphs.paths import Path
from pyoco_protocol.graphs.problems import LanguageError
from pyoco_protocol.graphs.templates import (
    UnresolvedError,
    parse_template,
    render_object,
    render_text,
    resolve_params,
    strings_of,
)
from pyoco_testkit.graph_documents import JsonObject

VALUES: dict[str, Any] = {
    "input.text": "abc",
    "input.number": 7,
    "input.float": 1.5,
    "input.yes": True,
    "input.null": None,
    "input.object": {"b": [1, None], "a": "ü"},
    "input.array": [1, "x"],
    "input.empty": "",
    "input.long": "x" * 257,
    "nodes.fetch.output.lines": 3,
    "nodes.fetch.error.code": "TIMEOUT",
    "nodes.fetch.status": "SUCCEEDED",
    "execution.id": "c0de",
    "execution.createdAt": "2026-11-18T03:15:27.123Z",
    "node.id": "ship",
    "node.attempt": 2,
}


def value_of(path: Path) -> Any | Missing:
    return VALUES.get(path.text, MISSING)


def fact_at(path: Path) -> Fact:
    return fact_from_json(fact_of(VALUES[path.text])) if path.text in VALUES else MISSING


def resolved(value: Any) -> Any:
    return resolve_params(value, value_of)


def rendered(text: str) -> str:
    return render_text(parse_template(text), fact_at)


# --- params of runs


@pytest.mark.parametrize("path", VALUES)
def test_a_string_that_is_one_path_becomes_the_value_itself(path: str) -> None:
    assert resolved(f"${{{path}}}") == VALUES[path]
    assert type(resolved(f"${{{path}}}")) is type(VALUES[path])


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("a ${input.text} b", "a abc b"),
        ("${input.text}${input.text}", "abcabc"),
        ("n=${input.number}", "n=7"),
        ("f=${input.float}", "f=1.5"),
        ("y=${input.yes}", "y=true"),
        ("[${input.null}]", "[]"),
        ("o=${input.object}", 'o={"a":"ü","b":[1,null]}'),
        ("a=${input.array}", 'a=[1,"x"]'),
        ("${input.empty}!", "!"),
        ("${nodes.fetch.output.lines} of ${nodes.fetch.status}", "3 of SUCCEEDED"),
        ("${execution.id}/${node.id}/${node.attempt}", "c0de/ship/2"),
        ("at ${ input.text }", "at abc"),
    ],
)
def test_a_path_within_text_becomes_text(template: str, text: str) -> None:
    assert resolved(template) == text


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("${input.none ?? 5}", 5),
        ("${input.none ?? -1.5}", -1.5),
        ("${input.none ?? true}", True),
        ("${input.none ?? false}", False),
        ("${input.none ?? null}", None),
        ('${input.none ?? "a}b"}', "a}b"),
        ("${input.none ?? 'a}b'}", "a}b"),
        ("${input.none ?? ''}", ""),
        ("${input.none??5}", 5),
        (r"${input.none ?? 'it\'s'}", "it's"),
        (r'${input.none ?? "a\"\n"}', 'a"\n'),
        ("x${input.none ?? 5}", "x5"),
        ("x${input.none ?? null}", "x"),
        # The literal is for a missing path, not for a null.
        ("${input.null ?? 5}", None),
        ("${input.text ?? 5}", "abc"),
        ("${nodes.fetch.output.none ?? 'x'}", "x"),
    ],
)
def test_the_literal_after_two_question_marks_stands_for_a_missing_value(
    template: str, value: Any
) -> None:
    assert resolved(template) == value
    assert type(resolved(template)) is type(value)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("$${", "${"),
        ("$${input.text}", "${input.text}"),
        ("a $${b} ${input.text}", "a ${b} abc"),
        ("$", "$"),
        ("$$", "$$"),
        ("$${$${", "${${"),
        ("$$${input.text}", "$${input.text}"),
        ("5 $ and {input.text}", "5 $ and {input.text}"),
        ("", ""),
        ("a}", "a}"),
    ],
)
def test_two_dollars_and_a_brace_are_the_text_of_one(template: str, text: str) -> None:
    assert resolved(template) == text
    assert rendered(template) == text


def test_strings_are_resolved_at_any_depth_and_keys_are_not() -> None:
    params = {"a": [{"b": "${input.number}"}, "${input.text}!"], "${input.text}": 1, "n": 5}
    assert resolved(params) == {"a": [{"b": 7}, "abc!"], "${input.text}": 1, "n": 5}


def test_a_resolved_value_is_not_resolved_again() -> None:
    assert resolve_params("${input.a}", lambda _: "${input.b}") == "${input.b}"
    assert resolve_params("x ${input.a}", lambda _: "${input.b}") == "x ${input.b}"


@pytest.mark.parametrize("template", ["${input.none}", "a ${input.none}", "${nodes.x.output}"])
def test_a_missing_value_without_a_literal_is_an_error_that_names_the_path(template: str) -> None:
    with pytest.raises(UnresolvedError) as missing:
        resolved({"a": [template]})
    assert missing.value.path == template[template.index("{") + 1 : -1]


# --- wait keys and prompts


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("order-${input.text}", "order-abc"),
        ("${input.number}", "7"),
        ("${input.float}", "1.5"),
        ("${input.yes}", "true"),
        ("[${input.null}]", "[]"),
        ("[${input.none}]", "[]"),
        # What facts do not hold.
        ("[${input.object}]", "[]"),
        ("[${input.array}]", "[]"),
        ("[${input.long}]", "[]"),
        ("${nodes.fetch.status} ${nodes.fetch.error.code}", "SUCCEEDED TIMEOUT"),
        ("$${input.text}", "${input.text}"),
    ],
)
def test_a_key_shows_facts_as_text_and_a_missing_one_as_none(template: str, text: str) -> None:
    assert rendered(template) == text


def test_a_prompt_shows_facts_in_its_strings_and_keeps_the_rest() -> None:
    prompt: JsonObject = {
        "text": "Ship ${nodes.fetch.output.lines}?",
        "more": [{"a": "${input.text}"}, 5, None],
    }
    assert render_object(prompt, fact_at) == {"text": "Ship 3?", "more": [{"a": "abc"}, 5, None]}


@pytest.mark.parametrize(
    ("template", "position"),
    [
        ("${execution.id}", 2),
        ("${node.attempt}", 2),
        ("${input.a ?? 5}", 10),
    ],
)
def test_keys_and_prompts_have_no_literals_and_do_not_name_the_execution(
    template: str, position: int
) -> None:
    assert parse_template(template, for_params=True).paths
    with pytest.raises(LanguageError) as refused:
        parse_template(template)
    assert refused.value.position == position


@pytest.mark.parametrize(
    ("template", "position"),
    [
        ("${", 2),
        ("a ${}", 4),
        ("${input.a", 9),
        ("${input.a b}", 10),
        ("${input.}", 8),
        ("${input[x]}", 7),
        ("${inputs}", 2),
        ("${output.a}", 2),
        ("${status}", 2),
        ("${error.code}", 2),
        ("${nodes.a}", 2),
        ("${nodes.a.output", 16),
        ("${nodes.a.error.detail}", 2),
        ("${execution.name}", 2),
        ("${node.id.x}", 2),
        ("${input.a ?? }", 13),
        ("${input.a ?? x}", 13),
        ("${input.a ?? [1]}", 13),
        ("${input.a ?? {}}", 13),
        ("${input.a ?? 'x}", 13),
        ("${input.a ?? NaN}", 13),
        ("${input.a ?? 5 6}", 15),
        ("${input.a ?? 1e999}", 13),
        ("${input.a ?? -}", 13),
        (r'${input.a ?? "\ud800"}', 14),
        ("${input.a ??", 12),
        ("${input.a ? 5}", 10),
        ("${'a'}", 2),
    ],
)
def test_a_fault_has_the_position_of_its_character(template: str, position: int) -> None:
    with pytest.raises(LanguageError) as refused:
        parse_template(template, for_params=True)
    assert refused.value.position == position


_PIECES = st.sampled_from(
    ("${", "}", "$", "$$", "{", "input", ".a", "[0]", "nodes.x.output", " ", "??", "5", "'", '"x"')
)


def _parsed(text: str) -> object:
    try:
        return parse_template(text, for_params=True)
    except LanguageError as error:
        return error


@given(st.text(max_size=40) | st.lists(_PIECES, max_size=20).map("".join))
def test_a_text_is_a_template_or_a_fault_and_nothing_else(text: str) -> None:
    found = _parsed(text)
    if isinstance(found, LanguageError):
        assert 0 <= found.position <= len(text)
    else:
        assert resolve_params(text, lambda _: "v") is not None


@given(st.lists(_PIECES, max_size=20).map("".join))
def test_any_text_can_be_written_as_a_template(text: str) -> None:
    assert resolved(text.replace("${", "$${")) == text


def test_the_strings_of_a_value_have_their_places_in_the_order_of_the_document() -> None:
    value: JsonObject = {"b": ["x", {"c": "y"}], "a": "z", "n": 5}
    assert list(strings_of(value, "p")) == [("p.b[0]", "x"), ("p.b[1].c", "y"), ("p.a", "z")]
    assert list(strings_of(None, "p")) == []
