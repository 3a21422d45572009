import pickle
import traceback

import pytest

import pyoco_client
from pyoco_client import errors, execution_errors
from pyoco_client.error_mapping import api_error
from pyoco_client.errors import PyocoApiError, PyocoError, RunFailed
from pyoco_client.models import Run

RUN = Run.model_validate(
    {
        "run_id": "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4",
        "flow_name": "hello",
        "status": "FAILED",
        "heartbeat_at": 1.0,
        "updated_at": 1.0,
        "error": "ValueError: no",
        "err_id": "ERR-PYOCO-0007",
    }
)

KINDS = [
    kind
    for kind in {**vars(errors), **vars(execution_errors)}.values()
    if isinstance(kind, type) and issubclass(kind, PyocoError)
]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "InvalidRequestError"),
        (401, "AccessDeniedError"),
        (403, "AccessDeniedError"),
        (404, "NotFoundError"),
        (408, "UnavailableError"),
        (409, "ConflictError"),
        (413, "RequestTooLargeError"),
        (421, "AccessDeniedError"),
        (431, "RequestTooLargeError"),
        (422, "InvalidRequestError"),
        (429, "TooManyRequestsError"),
        (500, "ServerFaultError"),
        (503, "UnavailableError"),
        (418, "PyocoApiError"),
    ],
)
def test_an_unknown_error_id_gets_the_class_of_its_status(status: int, kind: str) -> None:
    error = api_error(status, {"err_id": "ERR-PYOCO-0999"})
    assert type(error).__name__ == kind
    assert (error.err_id, error.status) == ("ERR-PYOCO-0999", status)


def test_every_error_id_of_an_answer_has_its_own_class() -> None:
    from pyoco_protocol.problems import CATALOGUE

    # Ids of runs, workers and processes, which are never HTTP answers, and ids of routes that do
    # not exist yet.
    elsewhere = {"0001", "0004", *(f"{n:04d}" for n in range(6, 14)), "0018", "0021", "0024"}
    elsewhere |= {"0108", "0109", *(f"{n:04d}" for n in range(112, 118)), "0119", "0126", "0141"}
    # Ids of operator commands.
    elsewhere |= {"0133", "0134"}
    to_come = {"0022", "0023"}
    for err_id in CATALOGUE:
        if err_id[-4:] not in elsewhere | to_come:
            assert type(api_error(418, {"err_id": err_id})) is not PyocoApiError, err_id


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_the_package_exports_all_errors(kind: type[PyocoError]) -> None:
    assert getattr(pyoco_client, kind.__name__) is kind


@pytest.mark.parametrize(
    "error",
    [
        api_error(503, {"err_id": "ERR-PYOCO-0107", "run_id": "r"}, 2.0),
        errors.GatewayUnreachableError("http://x", "reset", may_have_arrived=True),
        errors.WaitTimeoutError("r", 3.0, "RUNNING"),
        RunFailed(RUN),
    ],
)
def test_errors_can_be_pickled(error: PyocoError) -> None:
    restored = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(restored) is type(error)
    assert str(restored) == str(error)
    assert restored.__dict__ == error.__dict__


def test_problems_of_a_request_are_listed() -> None:
    fault = {"where": "tasks.a", "what": "is no key", "line": 3}
    error = api_error(422, {"err_id": "ERR-PYOCO-0002", "problems": [fault, "odd"]})
    assert error.problems == (fault,)
    assert api_error(422, {"problems": "odd"}).problems == ()


def test_a_traceback_shows_the_problem_and_the_hint() -> None:
    fault = {"where": "tag", "what": "has a space"}
    refused = {"err_id": "ERR-PYOCO-0002", "message": "The request is not valid"}
    error = api_error(422, {**refused, "problems": [fault], "detail": "a", "hint": "Correct it."})
    text = "".join(traceback.format_exception(error))
    assert text.endswith("not valid\ntag: has a space\nhint: Correct it.\n")
    plain = api_error(404, {"message": "not found", "detail": "run r not found"})
    assert traceback.format_exception(plain)[-1] == "run r not found\n"


def test_the_error_of_a_failed_run_has_its_reason_and_snapshot() -> None:
    error = RunFailed(RUN)
    assert "ValueError: no" in str(error)
    assert (error.run, error.run_id, error.err_id) == (RUN, RUN.run_id, "ERR-PYOCO-0007")
