"""The caller of a request: its tenant, its key and its scopes."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

# Tenant of runs without a tenant: those submitted while authentication was off.
DEFAULT_TENANT: Final = "default"
_SCOPE_KEY: Final = "pyoco.caller"
# The actor id of callers without a key.
_NO_KEY: Final = "anonymous"


class KeyScope(StrEnum):
    """A permission of a key; `admin` includes all others, within the key's tenant."""

    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    OPS = "ops"
    WHEELS_WRITE = "wheels:write"
    EXECUTIONS_READ = "executions:read"
    # All commands. The next two are for keys that may send some of them only.
    EXECUTIONS_WRITE = "executions:write"
    EXECUTIONS_WORK = "executions:work"
    EXECUTIONS_RESUME = "executions:resume"
    GRAPHS_WRITE = "graphs:write"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request. Without a tenant, authentication is off and it owns all runs."""

    tenant_id: str | None
    key_id: str | None
    scopes: frozenset[KeyScope]
    # Not compared: an open stream goes on when its key gets another name.
    key_name: str | None = field(default=None, compare=False)

    @property
    def actor_id(self) -> str:
        """The id under which events name the caller.

        The name of the key comes first: a rotated key has the same name and another id.
        """
        return self.key_name or self.key_id or _NO_KEY

    def may(self, scope: KeyScope) -> bool:
        """Return whether the caller's key has `scope`."""
        return scope in self.scopes or KeyScope.ADMIN in self.scopes

    def owns(self, tenant_id: str | None) -> bool:
        """Return whether a resource of the tenant `tenant_id` belongs to the caller."""
        return self.tenant_id is None or (tenant_id or DEFAULT_TENANT) == self.tenant_id


UNRESTRICTED: Final = Caller(tenant_id=None, key_id=None, scopes=frozenset(KeyScope))

# An unauthenticated caller on a public route: owns nothing and has no scope.
ANONYMOUS: Final = Caller(tenant_id="", key_id=None, scopes=frozenset())


def set_caller(scope: MutableMapping[str, Any], caller: Caller) -> None:
    """Store the caller in the ASGI `scope` of its request."""
    scope[_SCOPE_KEY] = caller


def caller_of(scope: Mapping[str, Any]) -> Caller:
    """Return the caller of the request; raise KeyError if no middleware has set it."""
    caller: Caller = scope[_SCOPE_KEY]
    return caller


def tenant_of(scope: Mapping[str, Any]) -> str:
    """Return the tenant that the request is for; the default one without authentication."""
    return caller_of(scope).tenant_id or DEFAULT_TENANT
