import pytest
from pydantic import ValidationError

from pyoco_protocol.http.dead_letters import RedriveRequest

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"


def test_a_redrive_must_select_dead_letters() -> None:
    some: list[dict[str, object]] = [{"reason": "x"}, {"tag": ""}, {"run_id": RUN}, {"all": True}]
    for body in some:
        request = RedriveRequest.model_validate(body)
        assert (request.max, request.rate_per_sec, request.dry_run) == (100, 50.0, False)
    none: list[dict[str, object]] = [{}, {"all": False}, {"tag": None}, {"dry_run": True}]
    for body in none:
        with pytest.raises(ValidationError, match="reason, tag or run_id"):
            RedriveRequest.model_validate(body)


def test_a_redrive_takes_whole_json_numbers_and_refuses_others() -> None:
    read = RedriveRequest.model_validate_json(b'{"all": true, "max": 5.0, "rate_per_sec": 1}')
    assert (read.max, read.rate_per_sec) == (5, 1.0)
    for number in (b"true", b'"5"', b"5.5", b"0", b"1001", b"1e400"):
        with pytest.raises(ValidationError):
            RedriveRequest.model_validate_json(b'{"all": true, "max": %s}' % number)
