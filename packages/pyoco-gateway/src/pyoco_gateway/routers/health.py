"""Whether this process serves."""

from fastapi import APIRouter
from starlette.responses import Response

from pyoco_gateway import __version__
from pyoco_protocol.http_bodies import Health

router = APIRouter(tags=["health"])

_HEALTH = Health(version=__version__).model_dump_json()


@router.head("/health", include_in_schema=False)
@router.get("/health", responses={200: {"model": Health}})
async def get_health() -> Response:
    """Say that this process serves HTTP. The broker may be away: a restart would not help that."""
    return Response(_HEALTH, media_type="application/json")
