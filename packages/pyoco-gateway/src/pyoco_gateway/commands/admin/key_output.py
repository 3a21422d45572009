"""Prints API keys: data for other programs to stdout, remarks for people to stderr."""

import errno
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, TextIO, cast

import click

from pyoco_gateway.access.earlier_keys import EarlierKeyRecord
from pyoco_gateway.access.key_store import Issued
from pyoco_gateway.access.keys import ApiKeyRecord, Pepper
from pyoco_gateway.commands.admin.times import shown_moment
from pyoco_protocol.problems import CliUsageError

_COLUMNS: Final = ("KEY ID", "TENANT", "STATE", "SCOPES", "CREATED", "EXPIRES", "REMARK", "NAME")


def hand_over(issued: Issued, *, now: float, as_json: bool) -> None:
    """Print a new key, alone on its line or as a field of JSON."""
    record = issued.record
    described = {"key": issued.key, **_described(record, now, fits_pepper=True)}
    try:
        _print(json.dumps(described, indent=2) if as_json else issued.key)
    except OSError as error:
        raise CliUsageError(
            f"the key was not printed ({error.strerror}); "
            f"key {record.key_id} is stored, but was not shown",
            f"pyoco-server-admin api-key revoke --key-id {record.key_id}",
        ) from error
    remark(f"key id   {record.key_id}")
    remark(f"tenant   {record.tenant_id}")
    remark(f"scopes   {', '.join(sorted(record.scopes))}")
    remark(f"expires  {_moment_or(record.expires_at, 'never')}")
    remark("Save the key now: it is not stored and cannot be shown again.")


def show_keys(
    records: Sequence[ApiKeyRecord | EarlierKeyRecord],
    *,
    now: float,
    pepper: Pepper,
    as_json: bool,
) -> None:
    """Print keys without their secrets."""
    if as_json:
        described = [
            _described_earlier(each)
            if isinstance(each, EarlierKeyRecord)
            else _described(each, now, fits_pepper=pepper.fits(each))
            for each in records
        ]
        click.echo(json.dumps(described, indent=2))
        return
    if not records:
        remark("no keys found")
        return
    rows = [
        _COLUMNS,
        *(
            _earlier_row(each)
            if isinstance(each, EarlierKeyRecord)
            else _row(each, now, _pepper_remark(each, pepper))
            for each in records
        ),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def show_revoked(record: ApiKeyRecord | EarlierKeyRecord, *, now: float) -> None:
    """Print that a key is revoked, since when, and whether its successor stays valid."""
    at = now if record.revoked_at is None else record.revoked_at
    since = "is revoked" if at == now else f"has been revoked since {shown_moment(at)}"
    remark(f"key {record.key_id} of tenant {record.tenant_id} {since}")
    if isinstance(record, ApiKeyRecord) and record.rotated_to is not None:
        remark(f"its successor, key {record.rotated_to}, is not changed")


def show_rotated(former: ApiKeyRecord, issued: Issued) -> None:
    """Print how long the old key stays valid; warn if the keys have different peppers."""
    expires = _moment_or(former.expires_at, "it is revoked")
    remark(f"The old key {former.key_id} is valid until {expires}.")
    # A key without a pepper fits every gateway.
    if None not in (peppers := {former.pepper_id, issued.record.pepper_id}) and len(peppers) > 1:
        remark(
            "warning: the old key was issued with another PYOCO_AUTH_PEPPER, and a gateway accepts "
            "only keys of its own pepper; if the gateways do not have this one, revoke the new key"
        )


def remark(text: str) -> None:
    """Print a line to stderr."""
    click.echo(text, err=True)


def _state(record: ApiKeyRecord, now: float) -> str:
    if record.revoked_at is not None:
        return "revoked"
    return "active" if record.is_valid_at(now) else "expired"


def _earlier_state(record: EarlierKeyRecord) -> str:
    return "refused" if record.revoked_at is None else "revoked"


def _described(record: ApiKeyRecord, now: float, *, fits_pepper: bool) -> dict[str, Any]:
    return {
        **record.model_dump(mode="json", exclude={"secret_hash"}),
        "state": _state(record, now),
        "fits_pepper": fits_pepper,
        "issued_by_earlier_server": False,
    }


def _described_earlier(record: EarlierKeyRecord) -> dict[str, Any]:
    """Return the fields of `_described`, with null for those that such a key does not have."""
    names = ApiKeyRecord.model_fields.keys() - {"secret_hash"}
    return {
        **dict.fromkeys(sorted(names)),
        **record.model_dump(mode="json"),
        "scopes": [],
        "state": _earlier_state(record),
        "fits_pepper": False,
        "issued_by_earlier_server": True,
    }


def _pepper_remark(record: ApiKeyRecord, pepper: Pepper) -> str | None:
    if pepper.fits(record):
        return None
    if pepper.id is None:
        return "issued with a PYOCO_AUTH_PEPPER, which is not set here: refused without it"
    return "issued with another PYOCO_AUTH_PEPPER: refused"


def _earlier_row(record: EarlierKeyRecord) -> tuple[str, ...]:
    return (
        record.key_id,
        record.tenant_id,
        _earlier_state(record),
        "",
        shown_moment(record.created_at),
        "",
        "issued by an earlier server: refused; create a new key",
        "",
    )


def _row(record: ApiKeyRecord, now: float, pepper_remark: str | None) -> tuple[str, ...]:
    rotated = None if record.rotated_to is None else f"rotated to {record.rotated_to}"
    return (
        record.key_id,
        record.tenant_id,
        _state(record, now),
        ",".join(sorted(record.scopes)),
        shown_moment(record.created_at),
        _moment_or(record.expires_at, "never"),
        "; ".join(filter(None, (rotated, pepper_remark))),
        # Last, because its display width is unknown.
        record.name or "",
    )


def _moment_or(at: float | None, otherwise: str) -> str:
    return otherwise if at is None else shown_moment(at)


def _print(text: str) -> None:
    """Print and flush; raise OSError if stdout cannot be written."""
    # Python sets stdout to None if the parent process closed it.
    if (stdout := cast("TextIO | None", sys.stdout)) is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    try:
        click.echo(text)
        stdout.flush()
    except OSError:
        _abandon_stdout()
        raise


def _abandon_stdout() -> None:
    # Python would flush stdout again at exit, fail, and change the exit code.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    finally:
        os.close(nowhere)
