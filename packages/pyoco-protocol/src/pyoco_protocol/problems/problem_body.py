"""The HTTP response body of an error, in the caller's language."""

import re
from typing import Final, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, JsonValue

from pyoco_protocol.problems.base import PyocoError
from pyoco_protocol.problems.catalogue_entry import Language

LANGUAGES: Final[tuple[Language, ...]] = ("en", "ja")
_QUALITY: Final = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.IGNORECASE)


class Problem(BaseModel):
    """The body of every error response. An error may add fields, such as `run_id`."""

    model_config = ConfigDict(frozen=True, extra="allow")

    detail: str
    err_id: str
    msg_id: str
    message: str
    hint: str
    request_id: str | None = None

    @classmethod
    def of(
        cls, error: PyocoError, *, language: Language = "en", request_id: str | None = None
    ) -> Self:
        """Return the body for `error`, with message and hint in `language`."""
        return cls.model_validate(
            {
                **{key: encodable(value) for key, value in error.extra.items()},
                "detail": encodable(error.detail),
                "err_id": error.entry.err_id,
                "msg_id": error.entry.msg_id,
                "message": error.message(language),
                "hint": error.hint(language),
                "request_id": request_id,
            }
        )


def encodable(value: JsonValue) -> JsonValue:
    """Return `value` with lone surrogates escaped: JSON allows them, UTF-8 does not."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, list):
        return [encodable(item) for item in value]
    if isinstance(value, dict):
        return {str(encodable(key)): encodable(item) for key, item in value.items()}
    return value


class _Preference(NamedTuple):
    """The rank of a language in an `Accept-Language` header; higher is better."""

    quality: float
    named: bool
    earliness: int


_NOT_LISTED: Final = _Preference(0.0, False, 0)


def language_from_accept(header: str | None) -> Language:
    """Return the best supported language for an `Accept-Language` header; English by default.

    With equal quality, a listed language beats `*`, and an earlier one beats a later one.
    """
    preferences: dict[str, _Preference] = {}
    for position, item in enumerate((header or "").split(",")):
        tag, *parameters = (part.strip() for part in item.split(";"))
        quality = _quality_of(parameters)
        if quality is None:
            continue
        language = tag.lower().partition("-")[0]
        # A refused language (`q=0`) ranks below one that is not listed.
        preference = _Preference(quality or -1.0, language != "*", -position)
        preferences[language] = max(preference, preferences.get(language, preference))
    any_other = preferences.get("*", _NOT_LISTED)
    # `max` keeps the first of equals, and English comes first.
    return max(LANGUAGES, key=lambda language: preferences.get(language, any_other))


def _quality_of(parameters: list[str]) -> float | None:
    if not parameters:
        return 1.0
    match = _QUALITY.fullmatch(parameters[0])
    return float(match[1]) if match else None
