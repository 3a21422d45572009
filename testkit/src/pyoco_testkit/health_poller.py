"""A client that measures how fast the gateway answers while a test puts load on it."""

import http.client
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class HealthPoller(threading.Thread):
    """Requests `/health` until stopped; `response_times` holds the seconds of each answer."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._stopped = threading.Event()
        self.response_times: list[float] = []

    def run(self) -> None:
        """Send requests over one connection, 10 ms apart."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        while not self._stopped.wait(0.01):
            began = time.perf_counter()
            connection.request("GET", "/health")
            assert connection.getresponse().read()
            self.response_times.append(time.perf_counter() - began)
        connection.close()

    def p99(self) -> float:
        """Return the seconds in which 99 % of the requests were answered.

        On a busy machine the slowest percent measures how long a process waited for a core.
        """
        return statistics.quantiles(self.response_times, n=100, method="inclusive")[98]

    def stop(self) -> None:
        """Stop after the current request."""
        self._stopped.set()
        self.join()


@contextmanager
def polled_health(port: int) -> Iterator[HealthPoller]:
    """Poll the gateway on `port` for as long as the context lasts."""
    poller = HealthPoller(port)
    poller.start()
    try:
        yield poller
    finally:
        poller.stop()
