"""Formats of identifiers, and functions that create new ones."""

import re
import uuid
from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints

# A tag is one token of a NATS subject: dots separate tokens, `*` and `>` are wildcards.
TAG_PATTERN: Final = r"^[A-Za-z0-9_-]+$"
MAX_TAG_CHARS: Final = 64

# A worker id is a KV key and a directory name. It has no slash, and no leading, trailing or
# repeated dot, because NATS rejects empty tokens.
WORKER_ID_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$"
MAX_WORKER_ID_CHARS: Final = 128

MAX_FLOW_NAME_CHARS: Final = 256
# Control characters and the two Unicode line breaks would break a log line or a terminal.
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

# Run ids of idempotent submissions derive from this namespace, so it must never change.
_RUN_NAMESPACE: Final = uuid.UUID("0d6b3f0e-6d0c-5a38-9a51-6f0f5c2f7a11")
_EXECUTION_NAMESPACE: Final = uuid.UUID("5b0d7c1a-27a4-5f6e-8f1d-94c5e0b3a762")


_CANONICAL_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _printable(text: str) -> str:
    if _UNPRINTABLE.search(text):
        raise ValueError("must not contain control characters or line breaks")
    return text


def _canonical_uuid(text: str) -> str:
    if _CANONICAL_UUID.fullmatch(text):
        return text
    try:
        canonical = str(uuid.UUID(text))
    except ValueError:
        raise ValueError("must be a UUID such as 7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4") from None
    # Another spelling of the same UUID (upper case, braces) would be another key in the store.
    if canonical != text:
        raise ValueError(f"must be written as {canonical}")
    return text


RunId = Annotated[str, AfterValidator(_canonical_uuid)]
Tag = Annotated[str, StringConstraints(pattern=TAG_PATTERN, max_length=MAX_TAG_CHARS)]
WorkerId = Annotated[
    str, StringConstraints(pattern=WORKER_ID_PATTERN, max_length=MAX_WORKER_ID_CHARS)
]
_Words = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_FLOW_NAME_CHARS),
    AfterValidator(_printable),
    # The same rule for readers of the JSON schema.
    Field(json_schema_extra={"pattern": r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]+$"}),
]
FlowName = _Words
Label = _Words
UnixSeconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def new_run_id() -> str:
    """Return a new random run id."""
    return str(uuid.uuid4())


def idempotent_run_id(tenant: str, endpoint: str, key: str) -> str:
    """Return the run id for an idempotency key of a tenant on an endpoint.

    Each part has a length prefix, so that different triples never give the same name.
    """
    return _named_id(_RUN_NAMESPACE, tenant, endpoint, key)


def idempotent_execution_id(tenant: str, endpoint: str, key: str) -> str:
    """Return the execution id for an idempotency key of a tenant on an endpoint."""
    return _named_id(_EXECUTION_NAMESPACE, tenant, endpoint, key)


def _named_id(namespace: uuid.UUID, *parts: str) -> str:
    return str(uuid.uuid5(namespace, "".join(f"{len(part)}:{part}" for part in parts)))


def new_instance_id() -> str:
    """Return a new id for one start of a worker process."""
    return uuid.uuid4().hex


def is_execution_id(text: str) -> bool:
    """Whether `text` is an execution id in canonical form."""
    return is_run_id(text)


def is_run_id(text: str) -> bool:
    """Whether `text` is a run id in canonical form."""
    try:
        _canonical_uuid(text)
    except ValueError:
        return False
    return True


def is_tag(text: str) -> bool:
    """Whether `text` is a valid tag."""
    return len(text) <= MAX_TAG_CHARS and re.fullmatch(TAG_PATTERN, text) is not None


def is_label(text: str) -> bool:
    """Whether `text` is a valid label: one printable line of 1 to 256 characters."""
    return 0 < len(text) <= MAX_FLOW_NAME_CHARS and _UNPRINTABLE.search(text) is None


def is_worker_id(text: str) -> bool:
    """Whether `text` is a valid worker id."""
    return len(text) <= MAX_WORKER_ID_CHARS and re.fullmatch(WORKER_ID_PATTERN, text) is not None
