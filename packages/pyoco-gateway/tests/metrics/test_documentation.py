"""The page of the HTTP API names every family there is."""

import re
from pathlib import Path

import httpx

from pyoco_testkit.documents import tables_in

ROOT = Path(__file__).parents[4]
# Only where event streams are served.
ELSEWHERE = {"pyoco_sse_clients"}


async def test_the_page_of_the_http_api_lists_the_families_there_are(
    gateway: httpx.AsyncClient,
) -> None:
    page = (await gateway.get("/metrics")).text
    served = dict(re.findall(r"^# TYPE (pyoco_\w+) (\w+)$", page, re.M))

    documented = {
        row["family"]: row["type"] for row in tables_in(ROOT / "docs/http-api.md")["Metrics"]
    }

    assert served.items() <= documented.items()
    assert documented.keys() - served.keys() <= ELSEWHERE
