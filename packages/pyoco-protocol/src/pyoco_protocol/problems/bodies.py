"""What a failure becomes over HTTP: its body, in the caller's language."""

import re
from typing import Final, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, JsonValue

from pyoco_protocol.problems.base import PyocoError
from pyoco_protocol.problems.entries import Language

LANGUAGES: Final[tuple[Language, ...]] = ("en", "ja")
_QUALITY: Final = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.IGNORECASE)


class Problem(BaseModel):
    """The body of every failed answer; a failure may add fields of its own, such as `run_id`."""

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
        """Return the body for `error`, in the words of `language`."""
        return cls.model_validate(
            {
                **{key: _encodable(value) for key, value in error.extra.items()},
                "detail": _encodable(error.detail),
                "err_id": error.entry.err_id,
                "msg_id": error.entry.msg_id,
                "message": error.message(language),
                "hint": error.hint(language),
                "request_id": request_id,
            }
        )


def _encodable(value: JsonValue) -> JsonValue:
    """Return `value` as UTF-8 can carry it: JSON lets a caller send us half a character."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {str(_encodable(key)): _encodable(item) for key, item in value.items()}
    return value


class _Preference(NamedTuple):
    """How much a caller wants a language; compares like the wish itself."""

    quality: float
    named: bool
    earliness: int


_UNSPOKEN: Final = _Preference(0.0, False, 0)


def language_from_accept(header: str | None) -> Language:
    """Return the language of ours that an `Accept-Language` header wants most; English by default.

    A language that is named beats one that only `*` allows; of two wanted alike the first wins.
    """
    wishes: dict[str, _Preference] = {}
    for position, item in enumerate((header or "").split(",")):
        tag, *parameters = (part.strip() for part in item.split(";"))
        quality = _quality_of(parameters)
        if quality is None:
            continue
        language = tag.lower().partition("-")[0]
        # A language that is refused (`q=0`) is worse than one that is not spoken of.
        wish = _Preference(quality or -1.0, language != "*", -position)
        wishes[language] = max(wish, wishes.get(language, wish))
    anything = wishes.get("*", _UNSPOKEN)
    # `max` keeps the first of equals, and English comes first.
    return max(LANGUAGES, key=lambda language: wishes.get(language, anything))


def _quality_of(parameters: list[str]) -> float | None:
    if not parameters:
        return 1.0
    match = _QUALITY.fullmatch(parameters[0])
    return float(match[1]) if match else None
