import pytest

from pyoco_protocol.command_language import language_for


@pytest.mark.parametrize(
    ("arguments", "variables", "language"),
    [
        ([], {}, "en"),
        (["--lang", "ja"], {}, "ja"),
        (["up", "--lang=ja", "--bogus"], {}, "ja"),
        (["--lang", "en"], {"LANG": "ja_JP.UTF-8"}, "en"),
        (["--lang", "fr"], {"LANG": "ja_JP.UTF-8"}, "ja"),
        (["--lang"], {}, "en"),
        ([], {"LANG": "ja_JP.UTF-8"}, "ja"),
        ([], {"LANG": "ja_JP.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
        ([], {"LANG": "ja_JP.UTF-8", "LC_ALL": ""}, "ja"),
        ([], {"LC_MESSAGES": "ja", "LANG": "en_US"}, "ja"),
        ([], {"PYOCO_LANG": "ja", "LC_ALL": "C"}, "ja"),
        ([], {"PYOCO_LANG": " ", "LC_ALL": "ja_JP"}, "ja"),
    ],
)
def test_the_option_wins_over_the_variable_and_that_over_the_locale(
    arguments: list[str], variables: dict[str, str], language: str
) -> None:
    assert language_for(arguments, variables) == language
