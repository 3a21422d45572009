"""Another client, while something is done to the gateway."""

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Neighbour(threading.Thread):
    """Asks again and again whether the gateway serves; `took` is how long each answer took."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._stopped = threading.Event()
        self.took: list[float] = []

    def run(self) -> None:
        """Ask until stopped."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        while not self._stopped.wait(0.01):
            began = time.perf_counter()
            connection.request("GET", "/health")
            assert connection.getresponse().read()
            self.took.append(time.perf_counter() - began)
        connection.close()

    def stop(self) -> None:
        """Have it asked for the last time."""
        self._stopped.set()
        self.join()


@contextmanager
def neighbour(port: int) -> Iterator[Neighbour]:
    """A client beside those of the test, for as long as the context lasts."""
    client = Neighbour(port)
    client.start()
    try:
        yield client
    finally:
        client.stop()
