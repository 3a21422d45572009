"""The language in which a command prints its errors."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

CommandLanguage = Literal["en", "ja"]

LANGUAGES: Final[tuple[CommandLanguage, ...]] = ("en", "ja")
# In the order of precedence, as for other programs.
_VARIABLES: Final = ("PYOCO_LANG", "LC_ALL", "LC_MESSAGES", "LANG")


def language_for(arguments: Sequence[str], variables: Mapping[str, str]) -> CommandLanguage:
    """Return the language of `--lang`, `PYOCO_LANG` or the locale; English by default.

    The option is read from the words: a command line that cannot be parsed has no options.
    """
    for place, word in enumerate(arguments):
        name, _, value = word.partition("=")
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        if name == "--lang" and (value or following) in LANGUAGES:
            return "ja" if (value or following) == "ja" else "en"
    for name in _VARIABLES:
        if locale := variables.get(name, "").strip():
            return "ja" if locale.lower().startswith("ja") else "en"
    return "en"
