"""Every value is converted to JSON within its budget, without an error."""

import dataclasses
import datetime
import decimal
import enum
import json
import math
import sys
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json as as_stored

from pyoco_protocol.runs.snapshot import TaskRecord
from pyoco_testkit import strategies
from pyoco_worker.child.values import TooLargeError, safe_text, to_json

ROOM = 1_000_000


def stored(value: object, *, max_bytes: int = ROOM) -> Any:
    """Return the JSON form of a value as it comes back from the store."""
    form = to_json(value, max_bytes=max_bytes)
    text = json.dumps(form, allow_nan=False, ensure_ascii=False)
    # It survives a round trip through UTF-8 and through a task record.
    assert TaskRecord(output=form).output == form
    assert TaskRecord.model_validate_json(TaskRecord(output=form).model_dump_json()).output == form
    return json.loads(text.encode("utf-8"))


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no text")

    __str__ = __repr__


class Exiting:
    def __repr__(self) -> str:
        sys.exit(3)


class Endless:
    """A class whose `__repr__` recurses without end."""

    def __repr__(self) -> str:
        return f"<{self!r}>"


class LyingString(str):
    def __str__(self) -> str:
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError

    def encode(self, *_: object, **__: object) -> bytes:
        raise RuntimeError


class LyingInt(int):
    def bit_length(self) -> int:
        raise RuntimeError

    def __int__(self) -> int:
        raise RuntimeError


class LyingFloat(float):
    def __float__(self) -> float:
        raise RuntimeError


class BrokenDict(dict[str, object]):
    def items(self) -> Any:
        raise RuntimeError("no items")


class OddDict(dict[str, object]):
    def items(self) -> Any:
        return [1, 2, 3]


class EndlessMapping(Mapping[int, int]):
    def __getitem__(self, key: int) -> int:
        return key

    def __iter__(self) -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    def __len__(self) -> int:
        return 1


class BrokenList(list[object]):
    def __iter__(self) -> Iterator[object]:
        raise RuntimeError("no items")


def claiming(kind: Callable[[object], object]) -> Any:
    """Return a value with a faked `__class__`."""
    return type("Impostor", (), {"__class__": property(kind)})()


def no_class(_: object) -> object:
    raise RuntimeError("no class")


class Odd:
    pass


Odd.__module__ = "\ud800"
Odd.__qualname__ = "\udfff" * 10_000


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


@dataclasses.dataclass
class Point:
    x: int


Pair = namedtuple("Pair", ["left", "right"])

hostile_values = st.sampled_from(
    [
        Hostile,
        Exiting,
        Endless,
        lambda: LyingString("text"),
        lambda: LyingInt(5),
        lambda: LyingFloat(0.5),
        lambda: BrokenDict(a=1),
        lambda: OddDict(a=1),
        lambda: BrokenList([1]),
        lambda: claiming(lambda _: bool),
        lambda: claiming(lambda _: str),
        Odd,
        object,
        lambda: Color.RED,
        lambda: Level.LOW,
        lambda: Word.YES,
        lambda: Point(1),
        lambda: Pair(1, [2]),
        lambda: {1, 2},
        lambda: range(3),
        lambda: (number for number in range(3)),
        lambda: b"\xff",
        lambda: decimal.Decimal("NaN"),
        lambda: datetime.datetime(2026, 11, 17, tzinfo=datetime.UTC),
        lambda: MappingProxyType({"a": 1}),
        lambda: UserDict({"a": Hostile()}),
        lambda: OrderedDict(a=1),
        lambda: defaultdict(list, a=[1]),
        lambda: len,
        lambda: 10**5000,
        lambda: -(10**400),
    ]
).map(lambda make: cast("Callable[[], object]", make)())
leaves = (
    hostile_values
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(st.characters(exclude_categories=()), max_size=30)
    | st.binary(max_size=30)
)
hashables = st.text(st.characters(exclude_categories=()), max_size=5) | st.integers() | st.none()
anything = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(hashables, inner, max_size=4)
    ),
    max_leaves=15,
)


@given(anything)
def test_anything_has_a_json_form(value: object) -> None:
    stored(value)


@given(anything, st.integers(min_value=0, max_value=300))
def test_the_json_form_stays_within_its_budget(value: object, max_bytes: int) -> None:
    try:
        form = to_json(value, max_bytes=max_bytes)
    except TooLargeError:
        return
    assert len(as_stored(form)) <= max_bytes


@given(strategies.json_values)
def test_a_json_value_is_returned_unchanged(value: object) -> None:
    assert stored(value) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Level.LOW, 1),
        (Word.YES, "yes"),
        ((1, (2,)), [1, [2]]),
        (Pair(1, 2), [1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(list, a=[1]), {"a": [1]}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (UserDict({"a": 1}), {"a": 1}),
        ({1: "a", None: "b", (1, 2): "c"}, {"1": "a", "None": "b", "(1, 2)": "c"}),
        (2**63, 2**63),
    ],
)
def test_values_similar_to_json_become_json(value: object, shown: object) -> None:
    assert stored(value) == shown


def test_overridden_methods_of_numbers_and_texts_are_not_called() -> None:
    assert stored([LyingString("text"), LyingInt(5), LyingFloat(0.5)]) == ["text", 5, 0.5]


@pytest.mark.parametrize(
    ("value", "type_name", "text"),
    [
        (math.nan, "builtins.float", "nan"),
        (-math.inf, "builtins.float", "-inf"),
        (b"\x00\xff", "builtins.bytes", "b'\\x00\\xff'"),
        (1j, "builtins.complex", "1j"),
        (decimal.Decimal("1.10"), "decimal.Decimal", "Decimal('1.10')"),
        (datetime.date(2026, 11, 17), "datetime.date", "datetime.date(2026, 11, 17)"),
        pytest.param(1 << 2000, "builtins.int", hex(1 << 2000), id="huge"),
    ],
)
def test_a_value_that_json_cannot_represent_becomes_type_and_text(
    value: object, type_name: str, text: str
) -> None:
    assert stored(value) == {"$type": type_name, "$text": text}


def test_a_value_whose_class_cannot_be_read_is_shown_by_its_type() -> None:
    (shown,) = stored([claiming(no_class)])
    assert shown["$type"].endswith("Impostor")


def test_a_value_without_a_repr_is_shown_by_its_type() -> None:
    shown = stored([Hostile(), Exiting(), Endless(), 1])
    assert [each["$type"].rpartition(".")[2] for each in shown[:3]] == [
        "Hostile",
        "Exiting",
        "Endless",
    ]
    assert "RuntimeError" in shown[0]["$text"]
    assert shown[3] == 1


def test_a_broken_container_does_not_affect_other_values() -> None:
    shown = stored({"broken": BrokenDict(a=1), "odd": OddDict(a=1), "list": BrokenList(), "ok": 1})
    assert shown["ok"] == 1
    assert {"$type", "$text"} == shown["broken"].keys() == shown["odd"].keys()


def test_a_recursive_value_is_cut_off() -> None:
    loop: list[object] = [1]
    loop.append({"again": loop})
    shown = stored(loop)
    assert shown[1]["again"][0] == 1


def test_a_recursive_value_with_many_references_is_too_large() -> None:
    wide: list[object] = []
    wide.extend([wide] * 100)
    with pytest.raises(TooLargeError):
        to_json(wide, max_bytes=10_000)


def test_a_deeply_nested_value_is_cut_off() -> None:
    deep: object = "bottom"
    for _ in range(100_000):
        deep = [deep]
    shown = stored(deep)
    levels = 0
    while isinstance(shown, list):
        (shown,) = shown
        levels += 1
    assert shown["$type"] == "builtins.list"
    assert 10 < levels < 100


def test_an_endless_mapping_is_too_large() -> None:
    with pytest.raises(TooLargeError):
        to_json(EndlessMapping(), max_bytes=10_000)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("x" * 50_000_000, id="a long text"),
        pytest.param(["x" * 600, "x" * 600], id="two texts"),
        pytest.param({"x" * 2000: 1}, id="a long key"),
        pytest.param(list(range(1000)), id="many numbers"),
        pytest.param([2**1000] * 4, id="large numbers"),
        pytest.param("\x01" * 300, id="text that is escaped"),
    ],
)
def test_a_value_above_the_budget_is_refused(value: object) -> None:
    with pytest.raises(TooLargeError):
        to_json(value, max_bytes=1_000)


def test_lone_surrogates_are_escaped() -> None:
    assert stored({"\ud800key": "a\udfffb"}) == {"\\ud800key": "a\\udfffb"}


@given(anything)
def test_safe_text_is_short_and_can_be_encoded(value: object) -> None:
    assert len(safe_text(value).encode("utf-8")) <= 6 * 4096
