"""The page at `/`, with links to the routes."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from pyoco_gateway import __version__
from pyoco_gateway.http.provided import Provided, provided
from pyoco_protocol.problems import Language, language_from_accept

router = APIRouter(include_in_schema=False)

_HEADERS: Final = {"Vary": "Accept-Language"}

_TEXTS: Final[Mapping[Language, Mapping[str, str]]] = {
    "en": {
        "intro": "This gateway accepts runs of Pyoco flows over HTTP and shows their state.",
        "links": "Links",
        "/runs": "the runs that changed last",
        "/runs?status=FAILED": "failed runs",
        "/runs/counts": "the number of runs by status",
        "/workers": "workers and their current runs",
        "/queues": "waiting jobs and available workers by tag",
        "/dlq": "dead letters: jobs that could not be processed",
        "/metrics": "metrics for Prometheus",
        "/health?verbose=1": "the health of this gateway and its broker",
        "/openapi.json": "the HTTP API, as OpenAPI",
        "submit": "Submit a run",
        "read": "Read its state, with the run_id of the answer",
        "logs": "Follow its output",
    },
    "ja": {
        "intro": "このゲートウェイは、Pyoco flowのrunをHTTPで受け付け、その状態を表示します。",
        "links": "リンク",
        "/runs": "最近更新されたrun",
        "/runs?status=FAILED": "失敗したrun",
        "/runs/counts": "状態ごとのrunの件数",
        "/workers": "workerと実行中のrun",
        "/queues": "タグごとの待機中のジョブと、実行できるworker",
        "/dlq": "dead letter（実行できなかったジョブ）",
        "/metrics": "Prometheus形式のメトリクス",
        "/health?verbose=1": "ゲートウェイとbrokerの状態",
        "/openapi.json": "HTTP APIの定義（OpenAPI）",
        "submit": "runを投入する",
        "read": "応答のrun_idで状態を参照する",
        "logs": "実行中の出力を追跡する",
    },
}


@dataclass(frozen=True)
class IndexPageServices(Provided):
    """The language of the page; None for that of the browser."""

    language: Language | None


@router.head("/")
@router.get("/")
async def get_index(request: Request) -> HTMLResponse:
    """Return a page of links, in the language of the settings or of the browser."""
    chosen = provided(request.scope, IndexPageServices).language
    language = chosen or language_from_accept(request.headers.get("accept-language"))
    described: bool = request.app.openapi_url is not None
    return HTMLResponse(_page(language, _address(request), described=described), headers=_HEADERS)


def _address(request: Request) -> str:
    # The address of the socket. The caller chooses the Host header, and this address becomes part
    # of a command that users paste into a shell.
    host, port = request.scope.get("server") or ("127.0.0.1", 8000)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _page(language: Language, base_url: str, *, described: bool) -> str:
    texts = {key: escape(text) for key, text in _TEXTS[language].items()}
    body = '{"flow_name": "hello"}'
    submit = f"curl {base_url}/runs -H 'Content-Type: application/json' -d '{body}'"
    links = "\n".join(
        f'<li><a href="{path}">{path}</a>: {what}</li>'
        for path, what in texts.items()
        if path.startswith("/") and (described or path != "/openapi.json")
    )
    # Commands are in `code`, which wraps in a narrow window; `pre` would make the page scroll.
    return f"""<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Pyoco Server</title>
</head>
<body>
<h1>Pyoco Server {escape(__version__)}</h1>
<p>{texts["intro"]}</p>
<h2>{texts["links"]}</h2>
<ul>
{links}
</ul>
<h2>{texts["submit"]}</h2>
<p><code>{escape(submit)}</code></p>
<h2>{texts["read"]}</h2>
<p><code>{escape(f"curl {base_url}/runs/<run_id>")}</code></p>
<h2>{texts["logs"]}</h2>
<p><code>{escape(f"curl -N '{base_url}/runs/<run_id>/logs?follow=1'")}</code></p>
</body>
</html>
"""
