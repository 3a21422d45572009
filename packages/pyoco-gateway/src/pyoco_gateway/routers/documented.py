"""What the API description says of answers that several routes share."""

from http import HTTPStatus
from typing import Any

from pyoco_protocol.problems import Problem


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the failed answers of a route, for its `responses`."""
    return {
        status: {"model": Problem, "description": HTTPStatus(status).phrase} for status in statuses
    }
