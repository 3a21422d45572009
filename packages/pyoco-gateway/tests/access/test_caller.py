"""Who owns what, and what a key covers."""

import pytest

from pyoco_gateway.access.caller import UNRESTRICTED, Caller, KeyScope, caller_of, set_caller

ACME = Caller("acme", "k1", frozenset({KeyScope.RUNS_READ}))


def test_a_tenant_owns_its_own_and_nothing_else() -> None:
    assert ACME.owns("acme")
    assert not ACME.owns("other")
    assert not ACME.owns(None)


def test_what_nobody_signed_is_the_default_tenants() -> None:
    assert Caller("default", "k2", frozenset()).owns(None)


def test_anybody_owns_everything() -> None:
    assert UNRESTRICTED.owns("acme")
    assert UNRESTRICTED.owns(None)


@pytest.mark.parametrize("scope", KeyScope)
def test_a_key_covers_its_scopes_and_admin_covers_all(scope: KeyScope) -> None:
    assert ACME.may(scope) is (scope is KeyScope.RUNS_READ)
    assert Caller("acme", "k3", frozenset({KeyScope.ADMIN})).may(scope)


def test_a_request_that_passed_no_gate_has_no_caller() -> None:
    scope: dict[str, object] = {}
    with pytest.raises(KeyError):
        caller_of(scope)
    set_caller(scope, ACME)
    assert caller_of(scope) is ACME
