import math

from pyoco_client import parse_metrics
from pyoco_client.metrics_text import MetricSample

PAGE = """\
# HELP pyoco_runs_total Runs that are kept.
# TYPE pyoco_runs_total gauge
pyoco_runs_total{status="COMPLETED"} 12.0
pyoco_workers_alive_total 1.0
pyoco_run_duration_seconds_bucket{flow="a\\"b\\\\c\\nd",le="+Inf",tag="default"} 3.0 1700000000
pyoco_queue_oldest_age_seconds{tag="a"} NaN
this is no sample
pyoco_broken{x="1"} many
"""


def test_samples_are_parsed_with_their_labels() -> None:
    *samples, last = parse_metrics(PAGE)
    assert samples == [
        MetricSample("pyoco_runs_total", {"status": "COMPLETED"}, 12.0),
        MetricSample("pyoco_workers_alive_total", {}, 1.0),
        MetricSample(
            "pyoco_run_duration_seconds_bucket",
            {"flow": 'a"b\\c\nd', "le": "+Inf", "tag": "default"},
            3.0,
        ),
    ]
    assert math.isnan(last.value)
