"""Checks of the parts behind the gateway: broker, streams, workers, queues, dead letters."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyoco_client.cli.diagnosis.execution_checks import execution_findings, problems_of
from pyoco_client.cli.diagnosis.findings import (
    DEAD_LETTERS,
    HEALTH,
    QUEUES,
    WORKERS,
    Answer,
    Finding,
    Seen,
    failure,
    fine,
    warning,
)
from pyoco_client.cli.diagnosis.resource_checks import NAMED, listed, resource_finding
from pyoco_client.cli.display.cells import duration

_ALIVE: Final = frozenset({"RUNNING", "IDLE"})
_LONG_WAIT_SEC: Final = 300.0
_HOUR: Final = 3600.0
_DLQ_STREAM: Final = "PYOCO_DLQ"


def fleet_findings(seen: Mapping[str, Seen]) -> Iterator[Finding]:
    """Yield the findings about all parts that this caller may see."""
    health = seen.get(HEALTH)
    if not isinstance(health, Answer) or not isinstance(health.body, Mapping):
        return
    details = health.body
    broker = details.get("broker")
    is_up = True
    if isinstance(broker, Mapping):
        is_up = bool(broker.get("connected"))
        yield _broker(broker, problems_of(details.get("executions")), is_up=is_up)
        if is_up:
            yield resource_finding("streams", details.get("streams"))
            yield resource_finding("consumers", details.get("consumers"))
            yield from _index(details.get("index"))
            yield from execution_findings(details.get("executions"))
    elif _broker_is_down(seen):
        is_up = False
        yield failure(
            "broker",
            "the gateway reports that its broker is down",
            "Operators: start nats-server, and check the gateway's PYOCO_NATS_URL.",
        )
    if is_up:
        yield from _workers(seen.get(WORKERS))
        yield from _queues(seen.get(QUEUES))
        yield from _dead_letters(seen.get(DEAD_LETTERS), health)


def _broker_is_down(seen: Mapping[str, Seen]) -> bool:
    return any(
        isinstance(answer, Answer) and answer.err_id == "ERR-PYOCO-0003" for answer in seen.values()
    )


def _broker(broker: Mapping[str, Any], told_elsewhere: Sequence[str], *, is_up: bool) -> Finding:
    address = broker.get("address")
    if is_up:
        server = f"nats-server {broker.get('server_version')} at {address}"
        trouble = broker.get("trouble")
        if trouble and not any(str(trouble) in each for each in told_elsewhere):
            return warning(
                "broker",
                f"{server}: {trouble}",
                "Operators: grant the permission to the NATS user. `pyoco-server-admin nats-config"
                " --force` writes a configuration with all that a gateway needs.",
            )
        return fine("broker", server)
    return failure(
        "broker",
        f"the gateway has no connection to its broker at {address}",
        "Operators: start nats-server there, or correct the gateway's PYOCO_NATS_URL. The gateway"
        " reconnects by itself.",
    )


def _index(index: Any) -> Iterator[Finding]:
    if not isinstance(index, Mapping):
        return
    if not index.get("caught_up"):
        yield warning(
            "index",
            f"the gateway is still reading the runs ({index.get('lag')} changes left)",
            "Wait: lists are incomplete until it has finished.",
        )
    elif index.get("unreadable"):
        yield warning(
            "index",
            f"{index['unreadable']} run records cannot be read and are missing in lists",
            "The gateway's log names each one; a newer server may have written them.",
        )
    else:
        yield fine("index", f"{index.get('runs')} runs, up to date")


def _workers(seen: Seen | None) -> Iterator[Finding]:
    workers = _records(seen)
    if workers is None:
        return
    alive = [each for each in workers if each.get("state") in _ALIVE]
    if not alive:
        yield warning(
            "workers",
            "none is alive: runs wait for a worker",
            "Start one: pyoco-worker --tags default --flow-resolver my_flows.py:resolve",
        )
    else:
        tags = Counter(str(tag) for each in alive for tag in each.get("tags") or ())
        per_tag = ", ".join(f"{tag} {count}" for tag, count in sorted(tags.items()))
        yield fine("workers", f"{len(alive)} alive; by tag: {per_tag}")
    lost = [
        str(each.get("worker_id"))
        for each in workers
        # Operators hide a worker that will not come back.
        if each.get("state") == "DISCONNECTED" and not each.get("hidden")
    ]
    if lost:
        yield warning(
            "workers",
            f"lost without a shutdown: {listed(lost)}",
            "Check their hosts. Hide a worker that will not come back:"
            f" pyoco-client worker hide {lost[0]}",
        )


def _queues(seen: Seen | None) -> Iterator[Finding]:
    queues = _records(seen)
    if queues is None:
        return
    alone = [each for each in queues if _count(each, "pending") and not _count(each, "workers")]
    for queue in alone[:NAMED]:
        yield warning(
            "queues",
            f"{_waiting(queue)} and no worker takes"
            f" {'it' if _count(queue, 'pending') == 1 else 'them'}{_age(queue)}",
            f"Start a worker with this tag: pyoco-worker --tags {queue.get('tag')}",
        )
    slow = [
        each
        for each in queues
        if each not in alone
        and _count(each, "pending")
        and (each.get("oldest_age_sec") or 0) > _LONG_WAIT_SEC
    ]
    for queue in slow[:NAMED]:
        yield warning(
            "queues",
            f"{_waiting(queue)}{_age(queue)}; {queue.get('free_slots')} slots are free",
            "Start more workers with this tag, or raise the --concurrency of the existing ones.",
        )
    if not alone and not slow:
        waiting = sum(_count(each, "pending") for each in queues)
        running = sum(_count(each, "in_flight") for each in queues)
        yield fine("queues", f"{waiting} runs wait, {running} are running")


def _waiting(queue: Mapping[str, Any]) -> str:
    if (pending := _count(queue, "pending")) == 1:
        return f"1 run with tag {queue.get('tag')} waits"
    return f"{pending} runs with tag {queue.get('tag')} wait"


def _age(queue: Mapping[str, Any]) -> str:
    age = queue.get("oldest_age_sec")
    return f", the oldest for {duration(age)}" if isinstance(age, (int, float)) else ""


def _dead_letters(seen: Seen | None, health: Answer) -> Iterator[Finding]:
    if not isinstance(seen, Answer) or seen.status != 200 or not isinstance(seen.body, Mapping):
        return
    letters = [each for each in seen.body.get("items") or () if isinstance(each, Mapping)]
    more = "+" if seen.body.get("next_cursor") else ""
    now = health.server_time or health.ended_at
    fresh = [each for each in letters if _when(each) > now - _HOUR]
    kept = f"{_kept(health) or str(len(letters)) + more} kept"
    if not fresh:
        yield fine("dead letters", f"{kept}, none in the last hour")
        return
    reasons = Counter(str(each.get("reason")) for each in fresh)
    listed = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
    at_least = more if len(fresh) == len(letters) else ""
    yield warning(
        "dead letters",
        f"{len(fresh)}{at_least} in the last hour ({listed}); {kept}",
        "List them with `pyoco-client dlq list`. After fixing the cause, run them again:"
        " pyoco-client dlq redrive --all",
    )


def _kept(health: Answer) -> int | None:
    streams = health.body.get("streams")
    for stream in streams if isinstance(streams, Sequence) else ():
        if isinstance(stream, Mapping) and stream.get("name") == _DLQ_STREAM:
            messages = stream.get("messages")
            return messages if isinstance(messages, int) else None
    return None


def _when(letter: Mapping[str, Any]) -> float:
    found = letter.get("timestamp")
    return float(found) if isinstance(found, (int, float)) else 0.0


def _records(seen: Seen | None) -> list[Mapping[str, Any]] | None:
    if not isinstance(seen, Answer) or seen.status != 200 or not isinstance(seen.body, list):
        return None
    return [each for each in seen.body if isinstance(each, Mapping)]


def _count(queue: Mapping[str, Any], name: str) -> int:
    found = queue.get(name)
    return found if isinstance(found, int) else 0
