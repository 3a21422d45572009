import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.index.signed_cursors import CursorError, SignedCursors
from pyoco_gateway.runs.index.cursors import Cursor, Cursors, FollowCursor, WalkCursor
from pyoco_gateway.runs.index.list_query import Order

STREAM = "KV_pyoco_runs"
CREATED = "2026-11-17T12:00:00.123456789Z"
FILTERS = "0123456789abcdef"
OURS = Cursors(STREAM, CREATED)
URL_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

revisions = st.integers(0, 2**63 - 1)
times = st.floats(0, 4e9)
cursors: st.SearchStrategy[Cursor] = st.one_of(
    st.builds(FollowCursor, revisions),
    st.builds(
        WalkCursor,
        st.sampled_from(Order),
        times,
        st.integers(-(2**63), 2**63 - 1),
        revisions,
        st.none() | times,
    ),
)


@given(cursors)
def test_every_gateway_of_a_deployment_reads_a_cursor(
    cursor: Cursor,
) -> None:
    text = OURS.write(cursor, FILTERS)
    assert set(text) <= set(URL_CHARS)
    assert len(text) <= 512
    assert Cursors(STREAM, CREATED).read(text, FILTERS) == cursor


@given(cursors, st.data())
def test_an_altered_cursor_is_refused(cursor: Cursor, data: st.DataObject) -> None:
    text = OURS.write(cursor, FILTERS)
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from(URL_CHARS).filter(lambda char: char != text[place]))
    with pytest.raises(CursorError):
        OURS.read(text[:place] + other + text[place + 1 :], FILTERS)


@given(cursors, st.integers(1, 30))
def test_a_shortened_or_lengthened_cursor_is_refused(cursor: Cursor, by: int) -> None:
    text = OURS.write(cursor, FILTERS)
    for altered in (text[:-by], text[by:], text + "A" * by, text + "="):
        with pytest.raises(CursorError):
            OURS.read(altered, FILTERS)


@given(st.text() | st.binary().map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_arbitrary_text_is_refused_as_a_cursor(text: str) -> None:
    with pytest.raises(CursorError):
        OURS.read(text, FILTERS)


@pytest.mark.parametrize("payload", [[], {}, 1, None, ["a"], ["a", "b"], [[], {}, []]])
def test_a_forged_cursor_in_the_right_format_is_refused(payload: object) -> None:
    forged = base64.urlsafe_b64encode(json.dumps(payload).encode() + b"x" * 12).decode()
    with pytest.raises(CursorError):
        OURS.read(forged.rstrip("="), FILTERS)


def test_a_cursor_of_a_recreated_bucket_is_refused_with_advice_to_start_again() -> None:
    text = OURS.write(FollowCursor(5), FILTERS)
    with pytest.raises(CursorError, match="start again"):
        Cursors(STREAM, "2026-11-17T12:00:01Z").read(text, FILTERS)


def test_a_cursor_with_other_filters_is_refused() -> None:
    text = OURS.write(WalkCursor(Order.CREATED, 1.0, 2, 3), FILTERS)
    with pytest.raises(CursorError, match="other filters"):
        OURS.read(text, "fedcba9876543210")


def test_a_cursor_of_an_unknown_kind_is_refused_with_advice_to_start_again() -> None:
    """A gateway of another release signs its cursors with the same key."""
    signed = SignedCursors(STREAM, CREATED).write(["d", 5], FILTERS)
    with pytest.raises(CursorError, match="another release; start again"):
        OURS.read(signed, FILTERS)


@given(cursors)
def test_a_cursor_of_another_tenant_is_refused_like_an_altered_one(cursor: Cursor) -> None:
    acme, globex = (Cursors(STREAM, CREATED, tenant) for tenant in ("acme", "globex"))
    text = acme.write(cursor, FILTERS)
    assert acme.read(text, FILTERS) == cursor
    for other in (globex, OURS):
        with pytest.raises(CursorError, match="was altered"):
            other.read(text, FILTERS)
