"""The page at `/`: where to go from here."""

from collections.abc import Mapping
from html import escape
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from pyoco_gateway import __version__
from pyoco_protocol.problems import Language, language_from_accept

router = APIRouter(include_in_schema=False)

# The page needs nothing but itself.
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Vary": "Accept-Language",
}

_WORDS: Final[Mapping[Language, Mapping[str, str]]] = {
    "en": {
        "intro": "This gateway takes runs of Pyoco flows over HTTP.",
        "links": "Links",
        "health": "whether this gateway serves",
        "openapi": "the HTTP API, as OpenAPI",
        "submit": "Submit a run",
        "read": "Look at it, with the run_id of the answer",
    },
    "ja": {
        "intro": "このゲートウェイはPyoco flowのrunをHTTPで受け付けます。",
        "links": "リンク",
        "health": "ゲートウェイの稼働状態",
        "openapi": "HTTP APIの定義（OpenAPI）",
        "submit": "runを投入する",
        "read": "応答のrun_idで状態を参照する",
    },
}


@router.head("/")
@router.get("/")
async def get_index(request: Request) -> HTMLResponse:
    """Return a page of links, in the language of the settings or of the browser."""
    chosen: Language | None = request.state.page_language
    language = chosen or language_from_accept(request.headers.get("accept-language"))
    return HTMLResponse(_page(language, _address(request)), headers=_HEADERS)


def _address(request: Request) -> str:
    # Where the request arrived. Its Host header is the caller's to choose, and this ends up in a
    # command that somebody may paste into a shell.
    host, port = request.scope.get("server") or ("127.0.0.1", 8000)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _page(language: Language, base_url: str) -> str:
    words = {key: escape(text) for key, text in _WORDS[language].items()}
    body = '{"flow_name": "hello"}'
    submit = f"curl {base_url}/runs -H 'Content-Type: application/json' -d '{body}'"
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
<li><a href="/health">/health</a>: {words["health"]}</li>
<li><a href="/openapi.json">/openapi.json</a>: {words["openapi"]}</li>
</ul>
<h2>{words["submit"]}</h2>
<pre>{escape(submit)}</pre>
<h2>{words["read"]}</h2>
<pre>{escape(f"curl {base_url}/runs/<run_id>")}</pre>
</body>
</html>
"""
