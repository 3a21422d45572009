"""Sends one request many times over a few connections, and prints the count of each status.

It runs as a separate process, so that sending does not slow down the measuring test.
"""

import json
import re
import selectors
import socket
import sys
from collections import Counter
from typing import Final

_STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_MAX_ANSWER: Final = 65_536


def flood(host: str, port: int, headers: str, *, times: int, connections: int) -> Counter[str]:
    """Return the count of each status; a connection sends the next request after an answer."""
    request = f"GET /runs HTTP/1.1\r\nHost: {host}:{port}\r\n{headers}\r\n\r\n".encode()
    answered: Counter[str] = Counter()
    sent = 0
    with selectors.DefaultSelector() as selector:
        for _ in range(connections):
            peer = socket.create_connection((host, port))
            peer.sendall(request)
            sent += 1
            selector.register(peer, selectors.EVENT_READ)
        while answered.total() < times:
            for ready, _ in selector.select(timeout=30):
                assert isinstance(ready.fileobj, socket.socket)
                peer = ready.fileobj
                # An answer is much smaller than the buffer.
                for status in _STATUS.findall(peer.recv(_MAX_ANSWER)):
                    answered[status.decode()] += 1
                    if sent < times:
                        peer.sendall(request)
                        sent += 1
        for key in list(selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
    return answered


if __name__ == "__main__":
    _, _host, _port, _headers, _times, _connections = sys.argv
    counted = flood(_host, int(_port), _headers, times=int(_times), connections=int(_connections))
    sys.stdout.write(json.dumps(counted))
