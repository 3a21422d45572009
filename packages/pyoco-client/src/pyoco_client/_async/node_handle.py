"""The handle of one node of an execution."""

from collections.abc import Mapping
from typing import Any

from pyoco_client import execution_calls
from pyoco_client._async.transport import AsyncTransport
from pyoco_client.execution_models import CommandAnswer
from pyoco_client.http_call import path_part


class AsyncNodeHandle:
    """One node of an execution: report for an external worker, or resume a wait.

    `attempt` and `worker_id` are checked only if they are given; a report for an earlier attempt
    then raises CommandRejectedError with the reason `STALE_ATTEMPT`. `deadline` is the maximum
    time for a command with its repetitions; None is that of the client.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        execution_id: str,
        node_id: str,
        *,
        deadline: float | None = None,
    ) -> None:
        path_part("execution id", execution_id)
        path_part("node id", node_id)
        self._transport = transport
        self._deadline = deadline
        self.execution_id = execution_id
        self.id = node_id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self.execution_id}>"

    async def start(
        self,
        *,
        attempt: int | None = None,
        worker_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> CommandAnswer:
        """Start an attempt of a Task; a repeat by the same worker has no effect."""
        body = {"attempt": attempt, "worker_id": worker_id}
        return await self._command("start", body, idempotency_key)

    async def progress(
        self,
        progress: float | None = None,
        message: str | None = None,
        *,
        metrics: Mapping[str, Any] | None = None,
        attempt: int | None = None,
        worker_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> CommandAnswer:
        """Report progress from 0 to 100; the gateway stores one report per second."""
        body = {
            "progress": progress,
            "message": message,
            "metrics": metrics,
            "attempt": attempt,
            "worker_id": worker_id,
        }
        return await self._command("progress", body, idempotency_key)

    async def wait(
        self,
        *,
        wait_key: str | None = None,
        prompt: Mapping[str, Any] | None = None,
        timeout_sec: float | None = None,
        attempt: int | None = None,
        worker_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> CommandAnswer:
        """Let a running Task wait for a resume, which then has to have the key `wait_key`."""
        body = {
            "wait_key": wait_key,
            "prompt": prompt,
            "timeout_sec": timeout_sec,
            "attempt": attempt,
            "worker_id": worker_id,
        }
        return await self._command("wait", body, idempotency_key)

    async def resume(
        self,
        payload: Mapping[str, Any] | None = None,
        *,
        resume_key: str | None = None,
        idempotency_key: str | None = None,
    ) -> CommandAnswer:
        """Resume a waiting node; the payload becomes the output of a Wait."""
        body = {"payload": payload, "resume_key": resume_key}
        return await self._command("resume", body, idempotency_key)

    async def request_resume(
        self,
        payload: Mapping[str, Any] | None = None,
        *,
        comment: str | None = None,
        resume_key: str | None = None,
        idempotency_key: str | None = None,
    ) -> CommandAnswer:
        """Approve a wait; the last approval that it needs resumes it.

        A wait without approvals only records the request.
        """
        body = {"payload": payload, "comment": comment, "resume_key": resume_key}
        return await self._command("resume-request", body, idempotency_key)

    async def succeed(
        self,
        output: Mapping[str, Any] | None = None,
        *,
        attempt: int | None = None,
        worker_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> CommandAnswer:
        """Report the success of a running Task."""
        body = {"output": output, "attempt": attempt, "worker_id": worker_id}
        return await self._command("success", body, idempotency_key)

    async def fail(
        self,
        code: str | None = None,
        message: str | None = None,
        *,
        detail: Mapping[str, Any] | None = None,
        retryable: bool = True,
        attempt: int | None = None,
        worker_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> CommandAnswer:
        """Report the failure of an attempt, or reject a wait.

        The retry policy of the graph decides about another attempt, unless `retryable` is False.
        """
        fields = {"code": code, "message": message, "detail": detail}
        error = {name: value for name, value in fields.items() if value is not None}
        body = {
            "error": error or None,
            "retryable": None if retryable else False,
            "attempt": attempt,
            "worker_id": worker_id,
        }
        return await self._command("fail", body, idempotency_key)

    async def _command(
        self, route: str, body: Mapping[str, Any], idempotency_key: str | None
    ) -> CommandAnswer:
        call = execution_calls.node_command(
            self.execution_id, self.id, route, body, idempotency_key
        )
        answer = await self._transport.ask(call, deadline=self._deadline)
        return answer.read_as(CommandAnswer)
