import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_client import Client, ConfigurationError
from pyoco_client.configuration import (
    Context,
    Contexts,
    Settings,
    contexts_path,
    read_contexts,
    settings_of,
    write_contexts,
)

PROD = Context("https://pyoco.example.com", "prod-key", "X-Team-Key", "ja")
LOCAL = Context("http://127.0.0.1:9000")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "contexts.toml"
    write_contexts(path, Contexts("prod", {"prod": PROD, "local": LOCAL}))
    return path


def settled(file: Path, *, context: str | None = None, **variables: str) -> Settings:
    return settings_of(context=context, variables={"PYOCO_CONFIG": str(file), **variables})


def test_without_settings_the_defaults_apply(tmp_path: Path) -> None:
    settings = settled(tmp_path / "absent.toml")
    assert settings.server == "http://127.0.0.1:8000"
    assert (settings.api_key, settings.api_key_header) == (None, "X-API-Key")
    assert settings.context is None
    assert set(settings.sources.values()) == {"default"}


def test_the_current_context_takes_precedence_over_the_defaults(file: Path) -> None:
    settings = settled(file)
    assert settings.server == "https://pyoco.example.com"
    assert (settings.api_key, settings.api_key_header) == ("prod-key", "X-Team-Key")
    assert (settings.lang, settings.context) == ("ja", "prod")
    assert settings.sources["server"] == "context prod"


def test_the_environment_takes_precedence_over_the_context(file: Path) -> None:
    settings = settled(
        file, PYOCO_SERVER="http://other:8000/", PYOCO_API_KEY="mine", PYOCO_LANG="en"
    )
    assert (settings.server, settings.api_key) == ("http://other:8000", "mine")
    assert settings.lang == "en"
    assert settings.sources["server"] == "PYOCO_SERVER"


def test_an_argument_takes_precedence_over_the_environment() -> None:
    variables = {"PYOCO_SERVER": "http://env", "PYOCO_API_KEY": "env", "PYOCO_CONFIG": "/nowhere"}
    settings = settings_of(server="http://argument", api_key="argument", variables=variables)
    assert (settings.server, settings.api_key) == ("http://argument", "argument")
    assert settings.sources["api_key"] == "argument"


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_variable_is_ignored(file: Path, text: str) -> None:
    names = ("SERVER", "API_KEY", "API_KEY_HEADER", "LANG", "CONTEXT")
    blank = {f"PYOCO_{name}": text for name in names}
    assert settled(file, **blank) == settled(file)


@pytest.mark.parametrize("how", ["argument", "variable"])
def test_another_context_can_be_selected(file: Path, how: str) -> None:
    chosen = settled(file, context="local") if how == "argument" else None
    settings = chosen or settled(file, PYOCO_CONTEXT="local")
    assert (settings.server, settings.context) == ("http://127.0.0.1:9000", "local")
    assert settings.api_key is None


def test_a_context_named_by_an_argument_takes_precedence_over_the_environment(file: Path) -> None:
    settings = settled(file, context="prod", PYOCO_SERVER="http://other", PYOCO_API_KEY="mine")
    assert (settings.server, settings.api_key) == ("https://pyoco.example.com", "prod-key")
    assert settings.sources["server"] == "context prod"


def test_the_key_of_a_context_is_never_sent_to_another_server(file: Path) -> None:
    settings = settled(file, PYOCO_SERVER="http://elsewhere")
    assert settings.api_key is None
    assert settings.api_key_header == "X-API-Key"
    # The environment variable names the same server as the context.
    assert settled(file, PYOCO_SERVER="https://pyoco.example.com/").api_key == "prod-key"


def test_an_unknown_context_is_answered_with_the_known_ones(file: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no context 'staging'.*prod, local") as caught:
        settled(file, context="staging")
    assert caught.value.hint
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("current = ", "is not TOML"),
        ('current = "gone"', r"no \[contexts.gone\]"),
        ("[contexts.a]\nlang = 'ja'", "has no server"),
        ("[contexts.a]\nserver = 7", "must be text"),
        ("contexts = 1", "must be tables"),
        ("[contexts.'a b']\nserver = 'http://x'", "cannot be the name"),
    ],
)
def test_an_invalid_file_raises_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "contexts.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=message) as caught:
        read_contexts(path)
    assert str(path) in str(caught.value)


def test_only_the_owner_can_read_the_file_and_no_temporary_file_remains(file: Path) -> None:
    file.chmod(0o644)
    write_contexts(file, read_contexts(file).using("local"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [*file.parent.iterdir()] == [file]
    assert read_contexts(file).current == "local"


def test_a_link_to_the_file_stays_a_link(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    write_contexts(link, Contexts("local", {"local": LOCAL}))
    assert link.is_symlink()
    assert read_contexts(file).current == "local"


def test_a_failed_write_leaves_the_file_unchanged(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(UnicodeEncodeError):
        write_contexts(file, Contexts(None, {"a": Context("http://\ud800")}))
    assert file.read_bytes() == before
    assert [*file.parent.iterdir()] == [file]


def test_keys_of_a_newer_release_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "contexts.toml"
    path.write_text('theme = "dark"\n[contexts.a]\nserver = "http://a"\nretries = 3\n')
    write_contexts(path, read_contexts(path).using("a"))
    document = tomllib.loads(path.read_text())
    assert document["theme"] == "dark"
    assert document["contexts"]["a"] == {"server": "http://a", "retries": 3}


def test_contexts_are_added_replaced_and_removed() -> None:
    contexts = Contexts().with_context("a", LOCAL).with_context("b", PROD)
    assert contexts.current == "a"
    assert contexts.without("a").current is None
    assert contexts.without("a").by_name == {"b": PROD}
    with pytest.raises(ConfigurationError, match="name of a context"):
        contexts.with_context("no/name", LOCAL)
    with pytest.raises(ConfigurationError, match="no context"):
        contexts.without("c")


_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(key=_TEXT, lang=_TEXT)
def test_written_contexts_are_read_back(
    key: str, lang: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("contexts") / "contexts.toml"
    contexts = Contexts("a", {"a": Context("http://a", key, None, lang)})
    write_contexts(path, contexts)
    assert read_contexts(path) == contexts


def test_the_file_is_in_the_xdg_configuration_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert contexts_path({}) == tmp_path / ".config/pyoco/contexts.toml"
    assert contexts_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/pyoco/contexts.toml")
    assert contexts_path({"XDG_CONFIG_HOME": "relative"}) == contexts_path({})
    assert contexts_path({"PYOCO_CONFIG": "/y.toml", "XDG_CONFIG_HOME": "/x"}) == Path("/y.toml")


def test_keys_are_in_no_repr(file: Path) -> None:
    assert "prod-key" not in repr(settled(file))
    assert "s3cret" not in repr(settled(file, PYOCO_SERVER="http://me:s3cret@gateway"))
    assert "prod-key" not in repr(read_contexts(file))


@pytest.mark.parametrize(
    "server", ["", "host:80", "ftp://h", "http://", "http://h:x", "http://h/?a=1", "http://a b"]
)
def test_an_invalid_server_address_is_rejected(server: str) -> None:
    with pytest.raises(ConfigurationError, match="server must be a URL"):
        settings_of(server=server, variables={"PYOCO_CONFIG": "/nowhere"})


def test_a_password_in_a_wrong_address_is_not_shown() -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings_of(server="ftp://me:secret@host", variables={"PYOCO_CONFIG": "/nowhere"})
    assert "secret" not in str(caught.value)


def test_an_invalid_language_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="lang must be"):
        settings_of(lang="ja, en;q=0.5", variables={"PYOCO_CONFIG": "/nowhere"})


def test_a_client_takes_its_settings_from_environment_and_contexts(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYOCO_CONFIG", str(file))
    with Client() as client:
        assert client.server == "https://pyoco.example.com"
    with Client(context="local") as client:
        assert client.server == "http://127.0.0.1:9000"
    monkeypatch.setenv("PYOCO_SERVER", "http://env")
    with Client() as client:
        assert client.server == "http://env"
