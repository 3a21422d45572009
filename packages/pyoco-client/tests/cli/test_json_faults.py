import json

import pytest

from pyoco_client.cli.json_faults import explained


def fault_of(text: str) -> json.JSONDecodeError:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "place", "advice"),
    [
        ("{'a': 1}", "line 1, column 2", "double quotes"),
        ("{a: 1}", "line 1, column 2", '"a"'),
        ('{"a": word}', "line 1, column 7", '"word"'),
        ('{"a": True}', "line 1, column 7", "write true"),
        ('{"a": None}', "line 1, column 7", "write null"),
        ('{"a": 1,}', "line 1", "remove the comma"),
        ('{"a": 1', "line 1, column 8", "ends too early"),
        ('{"a": 1} x', "line 1, column 10", '"x"'),
        ('{"a": 1} {"b": 2}', "line 1, column 10", "remove the rest"),
        ('{"a" 1}', "line 1, column 6", "put ':' before it"),
        ('{"a": 1 "b": 2}', "line 1, column 9", "put ',' before it"),
        ('{"a": "one\ntwo"}', "line 1, column 11", r"\n"),
        ('{"a": "C:\\data"}', "line 1", r"\\"),
        ('{"a": ,}', "line 1, column 7", "remove the comma"),
        ("", "line 1, column 1", "empty object"),
        ('{\n  "a": 1,\n  "名": 太郎\n}', "line 3, column 8", "double quotes"),
    ],
)
def test_an_error_is_explained_with_its_place_and_a_fix(text: str, place: str, advice: str) -> None:
    explanation = explained(text, fault_of(text))
    assert place in explanation
    assert advice in explanation.splitlines()[-1]


def test_the_mark_is_below_the_error() -> None:
    text = '{"first": 1, "second": nothing, "third": 3}'
    _, line, mark = explained(text, fault_of(text)).splitlines()
    assert line[mark.index("^") :].startswith("nothing")
