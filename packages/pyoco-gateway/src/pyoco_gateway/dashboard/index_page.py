"""The page at `/`: where to go from here."""

from collections.abc import Mapping
from html import escape
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from pyoco_gateway import __version__
from pyoco_protocol.problems import Language, language_from_accept

router = APIRouter(include_in_schema=False)

_HEADERS: Final = {"Vary": "Accept-Language"}

_WORDS: Final[Mapping[Language, Mapping[str, str]]] = {
    "en": {
        "intro": "This gateway takes runs of Pyoco flows over HTTP and shows what becomes of them.",
        "links": "Links",
        "/runs": "the runs that changed last",
        "/runs?status=FAILED": "those that failed",
        "/runs/counts": "how many runs there are, by status",
        "/workers": "who works, and at what",
        "/queues": "what waits, and who could take it",
        "/dlq": "dead letters: jobs that could not be done",
        "/metrics": "all of it as numbers, for Prometheus",
        "/health?verbose=1": "how this gateway and its broker are",
        "/openapi.json": "the HTTP API, as OpenAPI",
        "submit": "Submit a run",
        "read": "Look at it, with the run_id of the answer",
        "logs": "Read what it prints, as it prints it",
    },
    "ja": {
        "intro": "このゲートウェイはPyoco flowのrunをHTTPで受け付け、その経過と結果を示します。",
        "links": "リンク",
        "/runs": "最近変化したrun",
        "/runs?status=FAILED": "失敗したrun",
        "/runs/counts": "状態ごとのrunの件数",
        "/workers": "workerとその状況",
        "/queues": "待機中のジョブと、担当できるworker",
        "/dlq": "dead letter（実行できなかったジョブ）",
        "/metrics": "Prometheus形式のメトリクス",
        "/health?verbose=1": "ゲートウェイとbrokerの状態",
        "/openapi.json": "HTTP APIの定義（OpenAPI）",
        "submit": "runを投入する",
        "read": "応答のrun_idで状態を参照する",
        "logs": "出力を実行中から読む",
    },
}


@router.head("/")
@router.get("/")
async def get_index(request: Request) -> HTMLResponse:
    """Return a page of links, in the language of the settings or of the browser."""
    chosen: Language | None = request.state.page_language
    language = chosen or language_from_accept(request.headers.get("accept-language"))
    described: bool = request.app.openapi_url is not None
    return HTMLResponse(_page(language, _address(request), described=described), headers=_HEADERS)


def _address(request: Request) -> str:
    # Where the request arrived. Its Host header is the caller's to choose, and this ends up in a
    # command that somebody may paste into a shell.
    host, port = request.scope.get("server") or ("127.0.0.1", 8000)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _page(language: Language, base_url: str, *, described: bool) -> str:
    words = {key: escape(text) for key, text in _WORDS[language].items()}
    body = '{"flow_name": "hello"}'
    submit = f"curl {base_url}/runs -H 'Content-Type: application/json' -d '{body}'"
    links = "\n".join(
        f'<li><a href="{path}">{path}</a>: {what}</li>'
        for path, what in words.items()
        if path.startswith("/") and (described or path != "/openapi.json")
    )
    # Commands stand in `code`, which a narrow window wraps; `pre` would push the page sideways.
    return f"""<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Pyoco Server</title>
</head>
<body>
<h1>Pyoco Server {escape(__version__)}</h1>
<p>{words["intro"]}</p>
<h2>{words["links"]}</h2>
<ul>
{links}
</ul>
<h2>{words["submit"]}</h2>
<p><code>{escape(submit)}</code></p>
<h2>{words["read"]}</h2>
<p><code>{escape(f"curl {base_url}/runs/<run_id>")}</code></p>
<h2>{words["logs"]}</h2>
<p><code>{escape(f"curl -N '{base_url}/runs/<run_id>/logs?follow=1'")}</code></p>
</body>
</html>
"""
