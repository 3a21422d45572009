"""The client of one gateway."""

import ssl
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final, Self

import httpx

from pyoco_client import calls, execution_calls
from pyoco_client._sync.executions import Executions
from pyoco_client._sync.graphs import Graphs
from pyoco_client._sync.handle import RunHandle
from pyoco_client._sync.operations import DeadLetters, Queues, Workers
from pyoco_client._sync.runs import Runs
from pyoco_client._sync.transport import Transport
from pyoco_client._sync.waits import Waits
from pyoco_client.answers import RawAnswer
from pyoco_client.calls import WorkflowSource
from pyoco_client.configuration import settings_of
from pyoco_client.execution_models import OpenNodePage
from pyoco_client.models import Accepted, Health, WorkflowValidation

DEFAULT_TIMEOUT_SEC: Final = 10.0
DEFAULT_DEADLINE_SEC: Final = 20.0
DEFAULT_PATIENCE_SEC: Final = 300.0


class Client:
    """A client of one gateway; `with` closes it.

    Settings without an argument come from the environment (`PYOCO_SERVER`, `PYOCO_API_KEY`, …),
    then from the current context, then from the defaults. Times are in seconds: `timeout` limits
    one request, `deadline` a call with all its repetitions, `patience` the time that a wait or
    watch continues without an answer of the gateway. `verify` and `transport` go to httpx.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        api_key: str | None = None,
        api_key_header: str | None = None,
        lang: str | None = None,
        context: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_SEC,
        deadline: float = DEFAULT_DEADLINE_SEC,
        patience: float = DEFAULT_PATIENCE_SEC,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.settings = settings_of(
            server=server,
            api_key=api_key,
            api_key_header=api_key_header,
            lang=lang,
            context=context,
        )
        self._patience = patience
        self._transport = Transport(
            self.settings,
            timeout=timeout,
            deadline=deadline,
            verify=verify,
            transport=transport,
            user_agent=f"pyoco-client/{version('pyoco-client')}",
        )
        self.runs = Runs(self._transport, patience)
        self.workers = Workers(self._transport)
        self.queues = Queues(self._transport)
        self.dlq = DeadLetters(self._transport)
        self.executions = Executions(self._transport, patience)
        self.graphs = Graphs(self._transport)
        self.waits = Waits(self._transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._transport.server}>"

    @property
    def server(self) -> str:
        """The address of the gateway."""
        return self.settings.server

    def close(self) -> None:
        """Close the connections; a second call does nothing."""
        self._transport.close()

    def submit(
        self,
        flow: str,
        params: Mapping[str, Any] | None = None,
        *,
        tag: str | None = None,
        tags: Sequence[str] | None = None,
        idempotency_key: str | None = None,
    ) -> RunHandle:
        """Return the handle of the stored and queued run.

        With an `idempotency_key` the submission is repeated after failures and still creates one
        run. Without a key it is repeated only if it certainly was not sent.
        """
        call = calls.submission(flow, params, tag, tags, idempotency_key)
        return self._submitted(self._transport.ask(call))

    def submit_yaml(
        self,
        workflow: WorkflowSource,
        *,
        flow: str,
        tag: str | None = None,
        idempotency_key: str | None = None,
    ) -> RunHandle:
        """Return the handle of a run of a workflow, given as path, text or bytes.

        A string with a line break or with `: ` is text; any other string is a path. `flow` is the
        name of the flow.
        """
        call = calls.yaml_submission(workflow, flow, tag, idempotency_key)
        return self._submitted(self._transport.ask(call))

    def validate_yaml(self, workflow: WorkflowSource) -> WorkflowValidation:
        """Return all problems of a workflow; nothing is run."""
        answer = self._transport.ask(calls.yaml_validation(workflow))
        return answer.read_as(WorkflowValidation)

    def run(self, run_id: str) -> RunHandle:
        """Return the handle of an existing run; no request is sent."""
        return RunHandle(self._transport, run_id, patience=self._patience)

    def ready_tasks(
        self,
        graph_id: str | None = None,
        *,
        wait_sec: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> OpenNodePage:
        """Return a page of Tasks that an external worker may start, the oldest first.

        With `wait_sec` (up to 30) the gateway waits for one if there is none. A TaskWorker does
        this and the rest.
        """
        call = execution_calls.ready_tasks(graph_id, wait_sec=wait_sec, limit=limit, cursor=cursor)
        return (self._transport.ask(call)).read_as(OpenNodePage)

    def metrics(self) -> str:
        """Return the metrics as text; `pyoco_client.parse_metrics` parses it."""
        return (self._transport.ask(calls.metrics())).text()

    def health(self, verbose: bool = False) -> Health:
        """Return the health of the gateway; with `verbose` also that of its broker and index."""
        return (self._transport.ask(calls.health(verbose))).read_as(Health)

    def _submitted(self, answer: RawAnswer) -> RunHandle:
        accepted = answer.read_as(Accepted)
        return RunHandle(
            self._transport,
            accepted.run_id,
            patience=self._patience,
            accepted=accepted,
            is_replay=answer.headers.get("idempotency-replayed") == "true",
        )
