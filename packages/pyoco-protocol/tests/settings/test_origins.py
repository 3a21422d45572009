"""Origins of web pages: scheme, host and port."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.settings import HttpServerSettings, SettingsError, load_settings
from pyoco_protocol.settings.origins import Origin, origin_in


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("http://pyoco.example", Origin("http", "pyoco.example", 80)),
        ("http://pyoco.example:80", Origin("http", "pyoco.example", 80)),
        ("https://pyoco.example", Origin("https", "pyoco.example", 443)),
        ("https://pyoco.example:8443", Origin("https", "pyoco.example", 8443)),
        ("HTTPS://Pyoco.Example", Origin("https", "pyoco.example", 443)),
        # Browsers count a name with a trailing dot as another host.
        ("http://pyoco.example.", Origin("http", "pyoco.example.", 80)),
        ("http://127.0.0.1:3000", Origin("http", "127.0.0.1", 3000)),
        ("http://[::1]:3000", Origin("http", "[::1]", 3000)),
        ("http://[0:0:0:0:0:0:0:1]", Origin("http", "[::1]", 80)),
        ("http://my_host", Origin("http", "my_host", 80)),
    ],
)
def test_an_origin_has_a_scheme_a_host_and_a_port(text: str, origin: Origin) -> None:
    assert origin_in(text) == origin


NO_ORIGINS = [
    "null",
    "*",
    "pyoco.example",
    "pyoco.example:8000",
    "//pyoco.example",
    "ftp://pyoco.example",
    "file://",
    "chrome-extension://abcdefghijklmnop",
    "http://",
    "http://:80",
    "http://pyoco.example/",
    "http://pyoco.example/page",
    "http://pyoco.example?a",
    "http://pyoco.example#a",
    "http://user@pyoco.example",
    "http://*.pyoco.example",
    "http://pyoco.example:",
    "http://pyoco.example:0",
    "http://pyoco.example:65536",
    "http://pyoco.example:http",
    "http://pyoco.example:٨٠",
    "http://::1",
    "http://[::1",
    "http://[evil.example]",
    "http://[fe80::1%eth0]",
    "http://pyoco.example http://evil.example",
    "http://lócalhost",
    f"http://{'x' * 300}",
]


@pytest.mark.parametrize("text", ["", *NO_ORIGINS])
def test_other_texts_are_no_origin(text: str) -> None:
    assert origin_in(text) is None


@given(st.text(max_size=40), st.sampled_from(["", "http://", "https://", "http://["]))
def test_any_text_is_an_origin_that_reads_back_or_none(text: str, prefix: str) -> None:
    origin = origin_in(prefix + text)

    assert origin is None or origin_in(str(origin)) == origin


def test_the_trusted_origins_are_a_list_of_origins() -> None:
    value = " https://Dashboard.example , http://127.0.0.1:3000,"

    settings = load_settings(HttpServerSettings, {"PYOCO_TRUSTED_ORIGINS": value})

    assert settings.origins == {
        Origin("https", "dashboard.example", 443),
        Origin("http", "127.0.0.1", 3000),
    }


def test_no_origin_is_trusted_unless_the_operator_lists_it() -> None:
    settings = load_settings(HttpServerSettings, {"PYOCO_ALLOWED_HOSTS": "pyoco.example"})

    assert settings.origins == frozenset()


@pytest.mark.parametrize("text", NO_ORIGINS)
def test_an_invalid_trusted_origin_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(HttpServerSettings, {"PYOCO_TRUSTED_ORIGINS": f"http://a.example,{text}"})

    assert "PYOCO_TRUSTED_ORIGINS" in str(refused.value)
    assert "scheme://host or scheme://host:port" in str(refused.value)
    assert "https://dashboard.example" in str(refused.value)
