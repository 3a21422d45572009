"""A minimal HTTP/1.1 client, which takes little CPU time from the measured system."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit


class HttpConnection:
    """One keep-alive connection, one request at a time; answers need a Content-Length."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host

    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send a POST and return the JSON object in the answer; raise unless it is a success."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\n{lines}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return await self._json(head.encode() + body)

    async def get(self, path: str) -> dict[str, Any]:
        """Send a GET and return the JSON object in the answer; raise unless it is a success."""
        return await self._json(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())

    async def get_bytes(self, path: str) -> bytes:
        """Send a GET and return the body of the answer; raise unless it is a success."""
        return await self._body(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())

    async def _json(self, request: bytes) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await self._body(request))
        return answer

    async def answer(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Send a request without a body; return the status and the body of the answer."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\n{lines}\r\n"
        return await self._exchange(head.encode())

    async def _body(self, request: bytes) -> bytes:
        status, body = await self._exchange(request)
        if status >= HTTPStatus.BAD_REQUEST:
            raise RuntimeError(f"{status}: {body.decode(errors='replace')}")
        return body

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status_line, *lines = head.split("\r\n")
        headers: Mapping[str, str] = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        body = await self._reader.readexactly(int(headers["content-length"]))
        return int(status_line.split(" ", 2)[1]), body


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[HttpConnection]:
    """Connect to the server at `url`."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        yield HttpConnection(reader, writer, parts.netloc)
    finally:
        writer.close()
        await writer.wait_closed()
