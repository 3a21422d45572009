"""Turns states into checkpoints and back."""

import json
import zlib
from typing import Any, Final

from pydantic import TypeAdapter

from pyoco_gateway.executions.core.reduce import REDUCER_VERSION
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_gateway.executions.log.logged_state import IdempotencyKeys, LoggedState

_VERSION: Final = 1
# A checkpoint of a full-sized execution has about 1 MB before compression.
_MAX_BYTES: Final = 32 * 2**20
_STATE: Final = TypeAdapter(ExecutionState)
# What damaged bytes raise; pydantic's errors are ValueErrors.
_DAMAGES: Final = (
    zlib.error,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


def checkpoint_of(logged: LoggedState) -> bytes:
    """Return a state as a checkpoint."""
    header = {
        "v": _VERSION,
        "reducer": REDUCER_VERSION,
        "executionId": logged.execution_id,
        "seq": logged.state.seq,
        "n": logged.n,
        "streamSeq": logged.stream_seq,
        "lastHash": logged.last_hash,
        "keys": logged.keys.up_to(logged.stream_seq),
        "state": _STATE.dump_python(logged.state, mode="json", exclude_defaults=True),
    }
    return zlib.compress(json.dumps(header, separators=(",", ":")).encode(), 6)


def state_in(execution_id: str, data: bytes) -> LoggedState | None:
    """Return the state in a checkpoint; None if this version cannot use it.

    The caller compares it with the commit that it names.
    """
    try:
        header = json.loads(_inflated(data))
        if (header["v"], header["reducer"]) != (_VERSION, REDUCER_VERSION):
            return None
        state = _STATE.validate_python(header["state"])
        logged = LoggedState(
            state=state,
            n=int(header["n"]),
            last_hash=str(header["lastHash"]),
            stream_seq=int(header["streamSeq"]),
            keys=IdempotencyKeys(_keys(header["keys"])),
        )
    except _DAMAGES:
        return None
    is_consistent = (
        header.get("executionId") == state.execution_id == execution_id
        and header.get("seq") == state.seq
    )
    return logged if is_consistent else None


def _inflated(data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    text = inflater.decompress(data, _MAX_BYTES)
    if inflater.unconsumed_tail or not inflater.eof:
        raise ValueError("a checkpoint is cut or too large")
    return text


def _keys(stored: dict[Any, Any]) -> dict[str, int]:
    return {str(digest): int(stream_seq) for digest, stream_seq in stored.items()}
