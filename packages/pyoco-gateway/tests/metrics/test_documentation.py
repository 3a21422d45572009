"""docs/http-api.md lists every metric family."""

import re
from pathlib import Path

import httpx

from pyoco_testkit.documents import tables_in
from pyoco_testkit.eventually import eventually

ROOT = Path(__file__).parents[4]
# Missing here, because the test gateway serves no event streams.
NOT_SERVED = {"pyoco_sse_clients"}


async def test_the_http_api_page_lists_all_metric_families(
    gateway: httpx.AsyncClient,
) -> None:
    async def status_of_list() -> int:
        return (await gateway.get("/executions")).status_code

    # Numbers of executions come from their index, which the gateway builds first.
    await eventually(status_of_list, httpx.codes.OK)
    page = (await gateway.get("/metrics")).text
    served = dict(re.findall(r"^# TYPE (pyoco_\w+) (\w+)$", page, re.M))

    documented = {
        row["family"]: row["type"] for row in tables_in(ROOT / "docs/http-api.md")["Metrics"]
    }

    assert served.items() <= documented.items()
    assert documented.keys() - served.keys() <= NOT_SERVED
