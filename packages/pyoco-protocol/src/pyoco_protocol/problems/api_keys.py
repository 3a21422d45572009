"""Errors of the API key administration."""

from http import HTTPStatus

from pyoco_protocol.problems.base import PyocoError
from pyoco_protocol.problems.catalogue import CATALOGUE


class ApiKeyNotFoundError(PyocoError):
    """No API key has this id."""

    entry = CATALOGUE["ERR-PYOCO-0133"]
    status = HTTPStatus.NOT_FOUND

    def __init__(self, key_id: str) -> None:
        super().__init__(f"no API key has the id {key_id}")
        self.key_id = key_id


class ApiKeyUnchangeableError(PyocoError):
    """The state of an API key does not allow the change."""

    entry = CATALOGUE["ERR-PYOCO-0134"]
    status = HTTPStatus.CONFLICT

    def __init__(self, key_id: str, why: str) -> None:
        super().__init__(f"API key {key_id} {why}")
        self.key_id = key_id
