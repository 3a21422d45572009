"""Who sent a request: a tenant's key, or, where no keys are asked for, anybody."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

# Whose the runs are that nobody signed: those from before keys were asked for.
DEFAULT_TENANT: Final = "default"
_SCOPE_KEY: Final = "pyoco.caller"


class KeyScope(StrEnum):
    """What a key may do; `admin` may do all of it, for its own tenant."""

    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    OPS = "ops"
    WHEELS_WRITE = "wheels:write"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. Without a tenant it is anybody, who sees everything: keys are not asked for."""

    tenant_id: str | None
    key_id: str | None
    scopes: frozenset[KeyScope]

    def may(self, scope: KeyScope) -> bool:
        """Whether the caller's key covers `scope`."""
        return scope in self.scopes or KeyScope.ADMIN in self.scopes

    def owns(self, tenant_id: str | None) -> bool:
        """Whether what carries `tenant_id` is the caller's."""
        return self.tenant_id is None or (tenant_id or DEFAULT_TENANT) == self.tenant_id


UNRESTRICTED: Final = Caller(tenant_id=None, key_id=None, scopes=frozenset(KeyScope))

# Owns nothing and may do nothing: somebody at an open door.
ANONYMOUS: Final = Caller(tenant_id="", key_id=None, scopes=frozenset())


def set_caller(scope: MutableMapping[str, Any], caller: Caller) -> None:
    """Note in the ASGI `scope` of a request who sent it."""
    scope[_SCOPE_KEY] = caller


def caller_of(scope: Mapping[str, Any]) -> Caller:
    """Return who sent the request; raise KeyError where nobody has asked, which is our fault."""
    caller: Caller = scope[_SCOPE_KEY]
    return caller
