from pyoco_testkit.recorded_gateway import Call, RecordedGateway


def test_health_prints_more_with_verbose(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    assert call("health", "-o", "table").out == "STATUS   ok\nVERSION  0.1.0\n"
    broker = {"connected": True, "address": "nats://127.0.0.1:4222"}
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0", "broker": broker})
    call("health", "-o", "table")
    assert "nats://127.0.0.1:4222" in call("health", "--verbose", "-o", "table").out
    assert gateway.requests[-1].target == "/health?verbose=1"


def test_health_prints_the_answer_of_the_gateway(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    done = call("health")
    assert (done.code, done.json()) == (0, {"status": "ok", "version": "0.1.0"})
    assert len(done.out.splitlines()) == 1
