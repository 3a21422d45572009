"""Routes of dead letters: list, read, redrive, remove."""

import hashlib
import re
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.dead_letters.index import LetterFilter
from pyoco_gateway.dead_letters.services import DeadLetterServices
from pyoco_gateway.http.json_body import parse_body
from pyoco_gateway.http.list_queries import ListRoute
from pyoco_gateway.http.openapi import json_body, problems
from pyoco_gateway.http.provided import provided
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

# Read as text: a malformed sequence answers 404, like an unknown one.
Seq = Annotated[
    str,
    Path(
        description="The sequence of the dead letter in its stream.",
        json_schema_extra={"type": "integer", "minimum": 1},
    ),
]


@lists.get(
    "/dlq",
    responses={
        200: {"model": DeadLetterPage, "description": "Dead letters, newest first."},
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
        Query(description="The `next_cursor` of the previous page."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """Return dead letters, newest first.

    `next_cursor` leads to the next page, and is null on the last one. A page may have fewer than
    `limit` items and still have a next page.
    """
    letters = provided(request.scope, DeadLetterServices).letters
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
        200: {"model": NumberedDeadLetter, "description": "The dead letter."},
        **problems(404, 503),
    },
)
async def get_dead_letter(request: Request, seq: Seq) -> Response:
    """Return a dead letter with all its fields."""
    letters = provided(request.scope, DeadLetterServices).letters
    stored = await letters.read(seq, caller_of(request.scope))
    return _json(NumberedDeadLetter(seq=stored.seq, **stored.letter.model_dump()))


@router.delete(
    "/dlq/{seq}",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "The dead letter is removed."}, **problems(404, 503)},
)
async def delete_dead_letter(request: Request, seq: Seq) -> Response:
    """Remove a dead letter; its run stays unchanged."""
    letters = provided(request.scope, DeadLetterServices).letters
    await letters.remove(seq, caller_of(request.scope))
    return Response(status_code=204)


# Before the route with a placeholder, which would take `redrive` for a sequence.
@router.post(
    "/dlq/redrive",
    responses={
        200: {
            "model": RedriveReport,
            "description": "The runs that were redriven, or with `dry_run` would be.",
        },
        **problems(413, 415, 422, 503),
    },
    openapi_extra=json_body(RedriveRequest),
)
async def post_dead_letters_redrive(request: Request) -> Response:
    """Redrive the dead letters that match a filter, oldest first.

    The request ends after 30 seconds at the latest; repeat it while `remaining` is not 0. With
    `dry_run` nothing is changed.
    """
    redrive = provided(request.scope, DeadLetterServices).redrive
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
    """Submit a failed run again, as a new run with `redriven_from`, and remove its dead letter.

    Repeating the request does not submit it twice.
    """
    redrive = provided(request.scope, DeadLetterServices).redrive
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
        raise ListQueryError([("cursor", "is not a cursor of this list")])
    return int(match[1], 16)


def _check_of(seq: int) -> str:
    # Detects a cursor that was altered by mistake; not a protection against forgery.
    return hashlib.sha256(f"dlq:{seq}".encode()).hexdigest()[:8]
