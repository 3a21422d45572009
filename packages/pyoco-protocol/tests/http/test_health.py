from pyoco_protocol.http.health import Health


def test_unknown_fields_of_a_newer_server_are_ignored() -> None:
    answer = {"status": "ok", "version": "9.9", "uptime": 1}
    assert Health.model_validate(answer).version == "9.9"
