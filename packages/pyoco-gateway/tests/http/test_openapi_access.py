"""Access to the API description."""

from typing import Any

import pytest

from pyoco_gateway.http.openapi_access import DocsAccess, DocsMode, docs_access
from pyoco_testkit.nats_server import NatsServer


@pytest.mark.parametrize(
    ("mode", "auth_on", "access"),
    [
        ("auto", False, "open"),
        ("auto", True, "key"),
        ("open", False, "open"),
        ("open", True, "open"),
        ("off", False, "off"),
        ("off", True, "off"),
    ],
)
def test_access_to_the_description_follows_the_setting_and_authentication(
    mode: DocsMode, auth_on: bool, access: DocsAccess
) -> None:
    assert docs_access(mode, auth_on=auth_on) == access


async def test_a_description_that_is_off_answers_404(
    start_gateway: Any, nats_server: NatsServer
) -> None:
    async with start_gateway(nats_server.url, PYOCO_HTTP_DOCS="off") as gateway:
        answer = await gateway.get("/openapi.json")
        page = await gateway.get("/")

    assert (answer.status_code, answer.json()["err_id"]) == (404, "ERR-PYOCO-0110")
    assert "openapi" not in page.text


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/docs/oauth2-redirect"])
async def test_the_documentation_pages_of_the_framework_are_off(gateway: Any, path: str) -> None:
    assert (await gateway.get(path)).status_code == 404
