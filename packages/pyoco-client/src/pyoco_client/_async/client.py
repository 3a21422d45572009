"""The client: one gateway, everything it can be asked."""

import ssl
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from types import TracebackType
from typing import Any, Final, Self

import httpx

from pyoco_client import calls
from pyoco_client._async.handle import AsyncRunHandle
from pyoco_client._async.operations import AsyncDeadLetters, AsyncQueues, AsyncWorkers
from pyoco_client._async.runs import AsyncRuns
from pyoco_client._async.transport import AsyncTransport
from pyoco_client.answers import RawAnswer
from pyoco_client.calls import WorkflowSource
from pyoco_client.configuration import settings_of
from pyoco_client.models import Accepted, Health, WorkflowValidation

DEFAULT_TIMEOUT_SEC: Final = 10.0
DEFAULT_DEADLINE_SEC: Final = 20.0
DEFAULT_PATIENCE_SEC: Final = 300.0


class AsyncClient:
    """Speaks to one gateway; opened and closed by `async with`.

    What is not given comes from the environment (`PYOCO_SERVER`, `PYOCO_API_KEY`, …), then from
    the context in use, then from the defaults. `timeout` bounds one request, `deadline` a call
    with all its repeats, `patience` how long a wait or watch goes without a word from the
    gateway. `verify` and `transport` are those of httpx.
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
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.settings = settings_of(
            server=server,
            api_key=api_key,
            api_key_header=api_key_header,
            lang=lang,
            context=context,
        )
        self._patience = patience
        self._transport = AsyncTransport(
            self.settings,
            timeout=timeout,
            deadline=deadline,
            verify=verify,
            transport=transport,
            user_agent=f"pyoco-client/{version('pyoco-client')}",
        )
        self.runs = AsyncRuns(self._transport, patience)
        self.workers = AsyncWorkers(self._transport)
        self.queues = AsyncQueues(self._transport)
        self.dlq = AsyncDeadLetters(self._transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._transport.server}>"

    @property
    def server(self) -> str:
        """The address of the gateway."""
        return self.settings.server

    async def aclose(self) -> None:
        """Close the connections; harmless when repeated."""
        await self._transport.aclose()

    async def submit(
        self,
        flow: str,
        params: Mapping[str, Any] | None = None,
        *,
        tag: str | None = None,
        tags: Sequence[str] | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncRunHandle:
        """Return the run that was stored and queued.

        With an `idempotency_key` the submission is repeated after failures and is still one
        run; without one it is sent again only if it surely never left.
        """
        call = calls.submission(flow, params, tag, tags, idempotency_key)
        return self._submitted(await self._transport.ask(call))

    async def submit_yaml(
        self,
        workflow: WorkflowSource,
        *,
        flow: str,
        tag: str | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncRunHandle:
        """Return the run of a workflow file, given as its path, its text or its bytes.

        A text has line breaks; what has none is a path. `flow` is the name to run it under.
        """
        call = calls.yaml_submission(workflow, flow, tag, idempotency_key)
        return self._submitted(await self._transport.ask(call))

    async def validate_yaml(self, workflow: WorkflowSource) -> WorkflowValidation:
        """Return all that is wrong with a workflow file; nothing is run."""
        answer = await self._transport.ask(calls.yaml_validation(workflow))
        return answer.read_as(WorkflowValidation)

    def run(self, run_id: str) -> AsyncRunHandle:
        """Return the handle of a run that is there already; nothing is asked yet."""
        return AsyncRunHandle(self._transport, run_id, patience=self._patience)

    async def metrics(self) -> str:
        """Return the page of metrics; `pyoco_client.parse_metrics` makes numbers of it."""
        return (await self._transport.ask(calls.metrics())).text()

    async def health(self, verbose: bool = False) -> Health:
        """Return that the gateway serves; with `verbose` also how everything behind it is."""
        return (await self._transport.ask(calls.health(verbose))).read_as(Health)

    def _submitted(self, answer: RawAnswer) -> AsyncRunHandle:
        accepted = answer.read_as(Accepted)
        return AsyncRunHandle(
            self._transport,
            accepted.run_id,
            patience=self._patience,
            accepted=accepted,
            is_replay=answer.headers.get("idempotency-replayed") == "true",
        )
