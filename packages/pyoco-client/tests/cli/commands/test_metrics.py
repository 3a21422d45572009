from pyoco_testkit.recorded_gateway import Call, RecordedGateway


def test_metrics_are_printed_unchanged(gateway: RecordedGateway, call: Call) -> None:
    page = '# HELP a b\npyoco_runs_total{status="FAILED"} 1.0\n'
    gateway.answer("GET /metrics", 200, text=page, content_type="text/plain; version=0.0.4")
    assert call("metrics").out == page


def test_html_is_not_taken_for_metrics(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("GET /metrics", text="<html>hello</html>", content_type="text/html")
    printed = call("metrics")
    assert (printed.code, printed.out) == (1, "")
    assert "does not answer like a gateway: 200 with text/html instead of text" in printed.err
