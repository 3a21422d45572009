"""Ownership and scopes of callers."""

import pytest

from pyoco_gateway.access.caller import UNRESTRICTED, Caller, KeyScope, caller_of, set_caller

ACME = Caller("acme", "k1", frozenset({KeyScope.RUNS_READ}))


def test_a_tenant_owns_only_its_own_resources() -> None:
    assert ACME.owns("acme")
    assert not ACME.owns("other")
    assert not ACME.owns(None)


def test_resources_without_a_tenant_belong_to_the_default_tenant() -> None:
    assert Caller("default", "k2", frozenset()).owns(None)


def test_an_unrestricted_caller_owns_everything() -> None:
    assert UNRESTRICTED.owns("acme")
    assert UNRESTRICTED.owns(None)


@pytest.mark.parametrize("scope", KeyScope)
def test_a_key_has_its_scopes_and_admin_has_all(scope: KeyScope) -> None:
    assert ACME.may(scope) is (scope is KeyScope.RUNS_READ)
    assert Caller("acme", "k3", frozenset({KeyScope.ADMIN})).may(scope)


def test_a_request_without_access_middleware_has_no_caller() -> None:
    scope: dict[str, object] = {}
    with pytest.raises(KeyError):
        caller_of(scope)
    set_caller(scope, ACME)
    assert caller_of(scope) is ACME
