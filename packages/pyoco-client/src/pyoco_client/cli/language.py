"""The language of messages."""

from collections.abc import Sequence
from typing import Literal

from pyoco_client.environment import variables

Language = Literal["en", "ja"]

# `pyoco_protocol` is imported where it is used: `--help` must not load it.


def language_of_locale() -> Language:
    """Return the language that `PYOCO_LANG` or the locale asks for: Japanese, or else English."""
    return language_for([])


def language_for(arguments: Sequence[str]) -> Language:
    """Return the language of `--lang`, or else that of `PYOCO_LANG` or the locale."""
    from pyoco_protocol.command_language import language_for

    return language_for(arguments, variables())
