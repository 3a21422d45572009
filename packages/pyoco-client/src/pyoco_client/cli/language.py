"""The language of messages."""

from typing import Literal

from pyoco_client.environment import value_of, variables

Language = Literal["en", "ja"]


def language_of_locale() -> Language:
    """Return the language that `PYOCO_LANG` or the locale asks for: Japanese, or else English."""
    found = variables()
    for name in ("PYOCO_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        if locale := value_of(found, name):
            return "ja" if locale.lower().startswith("ja") else "en"
    return "en"
