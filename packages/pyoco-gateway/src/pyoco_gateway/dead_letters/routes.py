"""Dead letters: look for them, run them again, remove them."""

import hashlib
import re
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.dead_letters.index import LetterFilter
from pyoco_gateway.dead_letters.read import DeadLetters
from pyoco_gateway.dead_letters.redrive import Redrive
from pyoco_gateway.http.list_queries import ListRoute
from pyoco_gateway.http.openapi import json_body, problems
from pyoco_gateway.runs.submission_body import parse_body
from pyoco_protocol.http.dead_letters import (
    DeadLetterItem,
    DeadLetterPage,
    NumberedDeadLetter,
    Redriven,
    RedriveReport,
    RedriveRequest,
)
from pyoco_protocol.ids import MAX_TAG_CHARS, TAG_PATTERN
from pyoco_protocol.jetstream.dead_letter_reader import StoredLetter
from pyoco_protocol.problems import ListQueryError

router = APIRouter(tags=["dead letters"])
lists = APIRouter(tags=["dead letters"], route_class=ListRoute)

_JSON: Final = "application/json"
_MAX_FILTER_CHARS: Final = 256
_CURSOR: Final = re.compile(r"([0-9a-f]{1,15})-([0-9a-f]{8})")

# Read as text: what cannot be a sequence is not found, like one that is not there.
Seq = Annotated[
    str,
    Path(
        description="The sequence of the letter in the stream.",
        json_schema_extra={"type": "integer", "minimum": 1},
    ),
]


@lists.get(
    "/dlq",
    responses={
        200: {"model": DeadLetterPage, "description": "Dead letters, the newest first."},
        **problems(422, 503),
    },
)
async def get_dead_letters(
    request: Request,
    *,
    reason: Annotated[str | None, Query(max_length=_MAX_FILTER_CHARS)] = None,
    tag: Annotated[str | None, Query(pattern=TAG_PATTERN, max_length=MAX_TAG_CHARS)] = None,
    run_id: Annotated[str | None, Query(max_length=_MAX_FILTER_CHARS)] = None,
    cursor: Annotated[
        str | None,
        Query(description="The `next_cursor` of the page before."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """Return dead letters, the newest first.

    `next_cursor` leads to the next page, and is null at the end. A page may be short, with more
    behind it.
    """
    letters: DeadLetters = request.state.dead_letters
    page = await letters.page(
        LetterFilter(reason=reason, tag=tag, run_id=run_id),
        caller_of(request.scope),
        before=None if cursor is None else _seq_of(cursor),
        limit=limit,
    )
    return _json(
        DeadLetterPage(
            items=tuple(map(_item, page.letters)),
            next_cursor=None if page.next_before is None else _cursor_at(page.next_before),
        )
    )


@router.get(
    "/dlq/{seq}",
    responses={
        200: {"model": NumberedDeadLetter, "description": "The letter."},
        **problems(404, 503),
    },
)
async def get_dead_letter(request: Request, seq: Seq) -> Response:
    """Return all of a dead letter."""
    letters: DeadLetters = request.state.dead_letters
    stored = await letters.read(seq, caller_of(request.scope))
    return _json(NumberedDeadLetter(seq=stored.seq, **stored.letter.model_dump()))


@router.delete(
    "/dlq/{seq}",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "The letter is gone."}, **problems(404, 503)},
)
async def delete_dead_letter(request: Request, seq: Seq) -> Response:
    """Remove a dead letter; its run stays as it is."""
    letters: DeadLetters = request.state.dead_letters
    await letters.remove(seq, caller_of(request.scope))
    return Response(status_code=204)


# Before the route for one letter: `redrive` is no sequence.
@router.post(
    "/dlq/redrive",
    responses={
        200: {"model": RedriveReport, "description": "What was, or would be, redriven."},
        **problems(413, 415, 422, 503),
    },
    openapi_extra=json_body(RedriveRequest),
)
async def post_dead_letters_redrive(request: Request) -> Response:
    """Run the letters that match a filter again, the oldest first.

    The answer comes after 30 seconds at the latest; `remaining` says whether to ask again. With
    `dry_run` nothing is changed.
    """
    redrive: Redrive = request.state.redrive
    body = parse_body(
        RedriveRequest, await request.body(), content_type=request.headers.get("content-type")
    )
    return _json(await redrive.by_filter(body, caller_of(request.scope)))


@router.post(
    "/dlq/{seq}/redrive",
    responses={
        200: {"model": Redriven, "description": "The new run is stored and queued."},
        **problems(404, 409, 413, 503),
    },
)
async def post_dead_letter_redrive(request: Request, seq: Seq) -> Response:
    """Run a failed run again, as a new run with `redriven_from`; its letter is removed.

    Asking twice does not run it twice.
    """
    redrive: Redrive = request.state.redrive
    redriven, replayed = await redrive(seq, caller_of(request.scope))
    return _json(redriven, headers={"Idempotency-Replayed": "true"} if replayed else None)


def _json(
    body: DeadLetterPage | NumberedDeadLetter | Redriven | RedriveReport,
    headers: dict[str, str] | None = None,
) -> Response:
    return Response(body.model_dump_json(), media_type=_JSON, headers=headers)


def _item(stored: StoredLetter) -> DeadLetterItem:
    return DeadLetterItem(seq=stored.seq, **stored.letter.model_dump())


def _cursor_at(seq: int) -> str:
    return f"{seq:x}-{_check_of(seq)}"


def _seq_of(cursor: str) -> int:
    match = _CURSOR.fullmatch(cursor)
    if match is None or _check_of(int(match[1], 16)) != match[2]:
        raise ListQueryError([("cursor", "is none that was given out")])
    return int(match[1], 16)


def _check_of(seq: int) -> str:
    # Tells a cursor that was changed on its way from one of ours; it guards nothing.
    return hashlib.sha256(f"dlq:{seq}".encode()).hexdigest()[:8]
