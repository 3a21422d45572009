"""The health route: whether this process serves, with details for operators."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from pyoco_gateway import __version__
from pyoco_gateway.access.caller import KeyScope, caller_of
from pyoco_gateway.health.report import HealthReport
from pyoco_gateway.http.openapi import problems
from pyoco_gateway.http.provided import provided
from pyoco_protocol.http.health import Health, HealthDetails

router = APIRouter(tags=["health"])

_HEALTH = Health(version=__version__).model_dump_json()


@router.head("/health", include_in_schema=False)
@router.get("/health", responses={200: {"model": HealthDetails}, **problems(422)})
async def get_health(
    request: Request,
    verbose: Annotated[
        bool, Query(description="Add broker, streams, consumers, index and versions.")
    ] = False,
) -> Response:
    """Return that this process serves HTTP, also without its broker: a restart would not help.

    With authentication on, `verbose` requires a key with the scope `ops`; it is ignored otherwise.
    """
    if not verbose or not caller_of(request.scope).may(KeyScope.OPS):
        return Response(_HEALTH, media_type="application/json")
    report = provided(request.scope, HealthReport)
    return Response((await report()).model_dump_json(), media_type="application/json")
