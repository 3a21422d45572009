"""Creates the streams and the bucket of executions and graphs; knows whether they can be used."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import anyio

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.ensure import (
    Difference,
    PayloadLimitError,
    check_execution_payload,
    ensure_optional,
    report_differences,
)
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import (
    BrokerTooOldError,
    BrokerUnavailableError,
    ExecutionsUnavailableError,
    PyocoError,
    SettingsError,
)
from pyoco_protocol.topology import Topology

_log = logging.getLogger(__name__)

# Permissions can be granted without a reconnect.
_RETRY_SEC: Final = 30.0
# After a request without an answer.
_REPEAT_SEC: Final = 1.0
_NOT_CHECKED: Final = "the gateway has not checked their streams yet"

_Error = PyocoError | RefusedError


class ExecutionStreams:
    """Creates what is missing in the background, so that runs are served meanwhile.

    Nothing that executions lack concerns runs, with one exception: `run` raises SettingsError if
    the first check finds that the settings do not fit an existing stream.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._is_checked = False
        self._cause: str | None = _NOT_CHECKED
        self._problems: tuple[str, ...] = ()
        self._reported: list[Difference] = []
        self._recheck = anyio.Event()
        self._first_available = anyio.Event()

    @property
    def is_available(self) -> bool:
        """Whether executions and graphs can be used, as far as the last check knows."""
        return self._cause is None

    @property
    def problems(self) -> tuple[str, ...]:
        """What an operator has to solve: each missing permission, refused stream or limit."""
        return self._problems

    def require(self) -> None:
        """Raise ExecutionsUnavailableError if executions and graphs cannot be used."""
        if self._cause is not None:
            after = _RETRY_SEC if self._is_checked else _REPEAT_SEC
            raise ExecutionsUnavailableError(self._cause, retry_after_sec=round(after))

    async def run_once_available(self, part: Callable[[], Awaitable[None]]) -> None:
        """Run a part from the moment on when executions can be used.

        It would otherwise repeat denied requests, and the broker logs each of them.
        """
        await self._first_available.wait()
        await part()

    def check_again(self) -> None:
        """Check soon: a broker may return with an empty store or with other permissions."""
        self._recheck.set()

    async def run(self, broker: Broker) -> None:
        """Check after each `check_again`, and from time to time while there are problems."""
        while True:
            self._recheck = anyio.Event()
            with anyio.move_on_after(await self._pause_after_check(broker)):
                await self._recheck.wait()

    async def _pause_after_check(self, broker: Broker) -> float:
        """Check; return after how many seconds to check again without a reconnect."""
        try:
            await broker.wait_until_up()
            # The end of the preparation has set it.
            self._recheck = anyio.Event()
            await self._check(broker)
        except (BrokerUnavailableError, BrokerTooOldError) as error:
            # The connection was lost, or a stream has no leader. That says nothing new.
            _log.debug("streams of executions not checked", extra={"reason": str(error)})
            return _REPEAT_SEC
        return float("inf") if self.is_available else _RETRY_SEC

    async def _check(self, broker: Broker) -> None:
        try:
            check_execution_payload(broker.client)
            differences, failures = await ensure_optional(broker.client, self.topology)
        except PayloadLimitError as error:
            self._note({"max_payload": error})
            return
        except SettingsError as error:
            if not self._is_checked:
                raise
            self._note({"settings": error})
            return
        report_differences([each for each in differences if each not in self._reported])
        self._reported = differences
        self._note({failure.resource: failure.error for failure in failures})

    def _note(self, errors: dict[str, _Error]) -> None:
        self._is_checked = True
        was_available, before = self.is_available, self._problems
        self._problems = tuple(f"{resource}: {error}" for resource, error in errors.items())
        self._cause = _for_callers(errors.values()) if errors else None
        if self.is_available:
            self._first_available.set()
        if self._cause is not None and self._problems != before:
            error = ExecutionsUnavailableError(self._cause)
            fields = {"reason": "; ".join(self._problems), "hint": error.entry.hint["en"]}
            _log.warning("executions are not available", extra={**error_fields(error), **fields})
        elif self.is_available and not was_available:
            _log.info("executions are available")


def _for_callers(errors: Iterable[_Error]) -> str:
    """Return the causes without the names of subjects and users, which only operators see."""
    causes = (each.detail if isinstance(each, PyocoError) else str(each) for each in errors)
    return "; ".join(dict.fromkeys(causes))
