"""The client of the published specification: one method per route, plain dictionaries."""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, Self

from pyoco_client import calls
from pyoco_client._sync.client import Client
from pyoco_client._sync.transport import Transport
from pyoco_client.answers import RawAnswer
from pyoco_client.calls import Include, RunListFilters, Statuses
from pyoco_client.errors import PyocoError, WaitTimeoutError
from pyoco_client.http_call import Call
from pyoco_client.retry_rules import is_passing
from pyoco_client.status_errors import raising_status_errors
from pyoco_protocol.runs.lifecycle import TERMINAL

DEFAULT_TIMEOUT_SEC: Final = 10.0

# The end of a short run is seen at once; a long run costs two requests a second.
_FIRST_POLL_SEC: Final = 0.02
_LAST_POLL_SEC: Final = 0.5
_POLL_GROWTH: Final = 1.5


class PyocoHttpClient:
    """A connection pool to one gateway; threads can share it; `with` closes it.

    Every method returns the JSON of a successful answer unchanged and raises a
    `pyoco_client.errors.PyocoError` otherwise. The error of an answer with status 4xx or 5xx is a
    `httpx.HTTPStatusError` too. Requests are not repeated. For typed answers, retries and run
    handles use `pyoco_client.Client`.
    """

    def __init__(
        self,
        server: str | None = None,
        api_key: str | None = None,
        api_key_header: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_SEC,
    ) -> None:
        self._timeout = timeout
        self._client = Client(
            server, api_key=api_key, api_key_header=api_key_header, timeout=timeout, deadline=0
        )
        self.server = self._client.server

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; a second call does nothing."""
        self._client.close()

    def health(self) -> dict[str, Any]:
        """Return the answer of `GET /health`."""
        return self._ask(calls.health(verbose=False))

    def submit_run(
        self,
        flow_name: str,
        params: Mapping[str, Any] | None = None,
        tag: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Return `run_id` and `status` of the stored and queued run.

        The request is sent once: without an idempotency key a repetition would be a second run.
        Raises ValueError or TypeError for params that are not JSON.
        """
        return self._ask(calls.submission(flow_name, params, tag, tags, None))

    def submit_run_yaml(
        self, workflow_yaml: str | bytes, tag: str | None = None, *, flow_name: str = "workflow"
    ) -> dict[str, Any]:
        """Return `run_id` and `status` of a run of a workflow, given as text or bytes."""
        text = workflow_yaml.encode() if isinstance(workflow_yaml, str) else workflow_yaml
        return self._ask(calls.yaml_submission(text, flow_name, tag, None))

    def get_run(self, run_id: str, include: Include = None) -> dict[str, Any]:
        """Return the latest snapshot of a run; `include="records"` adds its task records."""
        return self._ask(calls.run(run_id, include))

    def get_tasks(self, run_id: str) -> dict[str, Any]:
        """Return the task states and task records of a run."""
        return self._ask(calls.tasks(run_id))

    def list_runs(
        self,
        status: Statuses = None,
        flow: str | None = None,
        tag: str | None = None,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return the latest changed runs."""
        filters: RunListFilters = {"status": status, "flow": flow, "tag": tag}
        return self._list(calls.runs(filters, limit=limit))

    def cancel_run(self, run_id: str) -> dict[str, Any]:
        """Return the snapshot of a run with its cancel recorded."""
        return self._ask(calls.cancel(run_id, None))

    def watch_run(
        self, run_id: str, include: Include = None, timeout: float | None = None
    ) -> Generator[dict[str, Any]]:
        """Yield the current snapshot of a run and one after each change, until it has ended."""
        watched = self._client.run(run_id).watch(include, timeout)
        with raising_status_errors(), closing(watched) as runs:
            for run in runs:
                yield run.as_dict()

    def get_workers(self, scope: str | None = None) -> list[dict[str, Any]]:
        """Return the workers."""
        return self._list(calls.workers(scope, None, None, None))

    def get_metrics(self) -> str:
        """Return the metrics in the text format of Prometheus."""
        with raising_status_errors():
            return self._client.metrics()

    def wait(
        self, run_id: str, timeout: float | None = None, include: Include = None
    ) -> dict[str, Any]:
        """Return the terminal snapshot of a run; raise WaitTimeoutError after `timeout` seconds.

        A gateway or broker that is down for a while does not end the wait.
        """
        call = calls.run(run_id, include)
        deadline = None if timeout is None else time.monotonic() + timeout
        left = self._timeout if timeout is None else timeout
        pause = _FIRST_POLL_SEC
        last_status: str | None = None
        while True:
            trouble: PyocoError | None = None
            try:
                limit = min(self._timeout, max(left, _LAST_POLL_SEC))
                run = self._send(call, timeout=limit).json_object()
            except PyocoError as error:
                if not is_passing(error):
                    raise
                trouble = error
            else:
                last_status = str(run.get("status"))
                if last_status in TERMINAL:
                    return run
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise WaitTimeoutError(run_id, timeout or 0.0, last_status) from trouble
                pause = min(pause, left)
            time.sleep(pause)
            pause = min(pause * _POLL_GROWTH, _LAST_POLL_SEC)

    @property
    def _transport(self) -> Transport:
        return self._client._transport

    def _ask(self, call: Call) -> dict[str, Any]:
        return self._send(call).json_object()

    def _list(self, call: Call) -> list[dict[str, Any]]:
        return self._send(call).json_list()

    def _send(self, call: Call, timeout: float | None = None) -> RawAnswer:
        with raising_status_errors():
            return self._transport.send(call, timeout=timeout)
