import httpx
import pytest

from pyoco_testkit.recorded_gateway import recorded_gateway


def test_answers_come_in_their_order_and_the_last_one_is_repeated() -> None:
    with recorded_gateway() as gateway:
        gateway.answer("GET /health", 503, {"detail": "not yet"})
        gateway.answer("GET /health", 200, {"status": "ok"}, headers={"X-Request-ID": "a"})
        answers = [httpx.get(f"{gateway.url}/health?n={n}") for n in range(3)]
        assert [answer.status_code for answer in answers] == [503, 200, 200]
        assert answers[2].json() == {"status": "ok"}
        assert answers[2].headers["x-request-id"] == "a"
        assert [each.target for each in gateway.requests] == [f"/health?n={n}" for n in range(3)]


def test_a_route_without_an_answer_and_a_hang_up_end_without_an_answer() -> None:
    with recorded_gateway() as gateway:
        gateway.stay_silent("GET /slow")
        gateway.answer("GET /broken", hang_up=True)
        with pytest.raises(httpx.ReadTimeout):
            httpx.get(f"{gateway.url}/slow", timeout=0.1)
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(f"{gateway.url}/broken")
