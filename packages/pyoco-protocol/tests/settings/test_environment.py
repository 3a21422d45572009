from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pyoco_protocol.problems import SettingProblem
from pyoco_protocol.settings import (
    GROUPS,
    BrokerSettings,
    ConsumerSettings,
    DashboardSettings,
    DlqSettings,
    HttpAuthSettings,
    LogSettings,
    PyocoSettings,
    SettingDoc,
    SettingsError,
    TopologySettings,
    WheelSettings,
    document_settings,
    load_settings,
    read_environment,
    settings_notes,
    unknown_variables,
)


def group_of(variable: str) -> type[PyocoSettings]:
    return next(g for g in GROUPS if variable.removeprefix("PYOCO_").lower() in g.model_fields)


def refusal(group: type[PyocoSettings], environ: dict[str, str]) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load_settings(group, environ)
    return caught.value


@pytest.mark.parametrize("group", GROUPS)
def test_an_empty_environment_gives_the_defaults(group: type[PyocoSettings]) -> None:
    assert load_settings(group, {}) == group()


def test_a_constructor_does_not_read_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("PYOCO_REPLICAS=3\n")
    monkeypatch.setenv("PYOCO_REPLICAS", "5")
    monkeypatch.setenv("REPLICAS", "5")
    assert TopologySettings().replicas == 1
    assert (
        load_settings(TopologySettings, {"REPLICAS": "5", "PYOCO_LOAD_DOTENV": "0"}).replicas == 1
    )


def test_the_environment_of_the_process_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_REPLICAS", "3")
    assert load_settings(TopologySettings).replicas == 3


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        setattr(TopologySettings(), "replicas", 3)  # noqa: B010 - mypy would refuse the plain way


def test_a_misspelt_argument_is_refused() -> None:
    with pytest.raises(ValidationError):
        TopologySettings(replica=3)  # type: ignore[call-arg]  # the point


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", False),
        ("1", True),
        ("true", True),
        ("False", False),
        ("TRUE", True),
        ("yes", True),
        ("No", False),
        ("ON", True),
        ("off", False),
    ],
)
@pytest.mark.parametrize(
    "variable", [row.variable for row in document_settings() if row.default in ("true", "false")]
)
def test_every_boolean_accepts_these_words(variable: str, text: str, value: bool) -> None:
    settings = load_settings(group_of(variable), {"PYOCO_LOAD_DOTENV": "0", variable: text})
    assert getattr(settings, variable.removeprefix("PYOCO_").lower()) is value


@pytest.mark.parametrize("text", ["t", "y", "enabled", "2", "-1", " true"])
def test_a_boolean_refuses_other_words(text: str) -> None:
    assert refusal(LogSettings, {"PYOCO_LOG_UTC": text}).problems[0].variable == "PYOCO_LOG_UTC"


@pytest.mark.parametrize("text", ["", " ", "\t"])
def test_an_empty_variable_counts_as_not_set(text: str) -> None:
    environ = {row.variable: text for row in document_settings()}
    for group in GROUPS:
        assert load_settings(group, environ) == group()
    assert read_environment({**environ, "OTHER": ""}) == {"OTHER": ""}


def test_all_invalid_values_of_a_group_are_reported_at_once() -> None:
    error = refusal(
        ConsumerSettings,
        {"PYOCO_CONSUMER_ACK_WAIT_SEC": "soon", "PYOCO_CONSUMER_MAX_DELIVER": "0"},
    )
    assert [problem.variable for problem in error.problems] == [
        "PYOCO_CONSUMER_ACK_WAIT_SEC",
        "PYOCO_CONSUMER_MAX_DELIVER",
    ]
    assert "'soon' is not valid" in str(error)


def test_choices_are_case_insensitive() -> None:
    environ = {"PYOCO_LOG_LEVEL": "debug", "PYOCO_LOG_FORMAT": "TEXT"}
    settings = load_settings(LogSettings, environ)
    assert (settings.log_level, settings.log_format) == ("DEBUG", "text")
    assert load_settings(DashboardSettings, {"PYOCO_DASHBOARD_LANG": "JA"}).dashboard_lang == "ja"


def test_paths_and_booleans_are_converted() -> None:
    environ = {"PYOCO_WHEEL_SYNC_ENABLED": "1", "PYOCO_WHEEL_SYNC_DIR": "/srv/wheels"}
    wheels = load_settings(WheelSettings, environ)
    assert (wheels.wheel_sync_enabled, wheels.wheel_sync_dir) == (True, Path("/srv/wheels"))
    dlq = load_settings(DlqSettings, {"PYOCO_DLQ_PUBLISH_EXECUTION_ERROR": "false"})
    assert dlq.dlq_publish_execution_error is False


def test_a_secret_is_never_in_an_error_or_repr() -> None:
    secret = "hunter2"
    broker = refusal(BrokerSettings, {"PYOCO_NATS_URL": f"http://user:{secret}@host"})
    assert secret not in str(broker)
    assert broker.__cause__ is None
    assert broker.__suppress_context__
    auth = load_settings(HttpAuthSettings, {"PYOCO_AUTH_PEPPER": secret})
    assert auth.auth_pepper is not None
    assert auth.auth_pepper.get_secret_value() == secret
    settings = load_settings(BrokerSettings, {"PYOCO_NATS_URL": f"nats://user:{secret}@host:1"})
    assert secret not in f"{auth!r} {auth} {settings!r} {settings}"
    with pytest.raises(ValidationError) as caught:
        BrokerSettings(nats_url=f"http://user:{secret}@host")
    assert secret not in str(caught.value)


def test_a_long_or_unprintable_value_is_shortened_and_escaped() -> None:
    error = refusal(LogSettings, {"PYOCO_LOG_LEVEL": "\x1b[31m\n" + "x" * 10_000})
    assert len(str(error)) < 400
    assert str(error).isprintable()


def test_whole_seconds_may_have_a_decimal_point() -> None:
    environ = {"PYOCO_DLQ_MAX_AGE_SEC": "604800.0"}
    assert load_settings(TopologySettings, environ).dlq_max_age_sec == 604_800


@given(st.sampled_from(document_settings()), st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_gives_settings_or_an_error_with_the_variable(row: SettingDoc, text: str) -> None:
    refused: tuple[SettingProblem, ...] = ()
    try:
        load_settings(group_of(row.variable), {"PYOCO_LOAD_DOTENV": "0", row.variable: text})
    except SettingsError as error:
        refused = error.problems
    for problem in refused:
        assert row.variable in {problem.variable, *problem.what.split()}
        assert str(problem).isprintable()


class TestDotenv:
    @pytest.fixture
    def dotenv(self, tmp_path: Path) -> Path:
        path = tmp_path / ".env"
        path.write_text(
            "# comment\nPYOCO_REPLICAS=3\nexport PYOCO_DEFAULT_TAG='gpu' # comment\nOTHER=1\n",
            "utf-8",
        )
        return path

    def test_the_file_is_read(self, dotenv: Path) -> None:
        settings = load_settings(TopologySettings, {})
        assert (settings.replicas, settings.default_tag) == (3, "gpu")

    def test_the_environment_overrides_the_file(self, dotenv: Path) -> None:
        settings = load_settings(TopologySettings, {"PYOCO_REPLICAS": "5"})
        assert (settings.replicas, settings.default_tag) == (5, "gpu")

    def test_an_empty_variable_of_the_environment_leaves_the_value_of_the_file(
        self, dotenv: Path
    ) -> None:
        assert load_settings(TopologySettings, {"PYOCO_REPLICAS": ""}).replicas == 3

    def test_an_empty_variable_of_the_file_counts_as_not_set(self, dotenv: Path) -> None:
        dotenv.write_text("PYOCO_REPLICAS=\nPYOCO_DEFAULT_TAG=''\n")
        assert load_settings(TopologySettings, {}) == TopologySettings()

    def test_an_empty_path_selects_the_default_file(self, dotenv: Path) -> None:
        assert load_settings(TopologySettings, {"PYOCO_ENV_FILE": ""}).replicas == 3

    def test_the_file_can_be_disabled(self, dotenv: Path) -> None:
        assert load_settings(TopologySettings, {"PYOCO_LOAD_DOTENV": "0"}) == TopologySettings()

    def test_another_file_can_be_selected(self, dotenv: Path, tmp_path: Path) -> None:
        (tmp_path / "other.env").write_text("PYOCO_DEFAULT_TAG=other\n")
        settings = load_settings(TopologySettings, {"PYOCO_ENV_FILE": "other.env"})
        assert (settings.replicas, settings.default_tag) == (1, "other")

    def test_other_variables_of_the_file_are_ignored(self, dotenv: Path) -> None:
        assert read_environment({"A": "1"}) == {
            "A": "1",
            "PYOCO_REPLICAS": "3",
            "PYOCO_DEFAULT_TAG": "gpu",
        }

    def test_values_of_the_file_are_not_expanded(
        self, dotenv: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", "/elsewhere")
        dotenv.write_text("PYOCO_AUTH_PEPPER=a${HOME}$b\n")
        auth = load_settings(HttpAuthSettings, {})
        assert auth.auth_pepper is not None
        assert auth.auth_pepper.get_secret_value() == "a${HOME}$b"

    def test_a_missing_default_file_is_ignored(self) -> None:
        assert load_settings(TopologySettings, {}) == TopologySettings()

    def test_a_default_file_that_is_a_directory_is_ignored(self, tmp_path: Path) -> None:
        (tmp_path / ".env").mkdir()
        assert load_settings(TopologySettings, {}) == TopologySettings()

    @pytest.mark.parametrize("name", [".env", "missing.env", "directory", "/dev/null/x"])
    def test_a_missing_selected_file_is_refused(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "directory").mkdir()
        (problem,) = refusal(TopologySettings, {"PYOCO_ENV_FILE": name}).problems
        assert problem.variable == "PYOCO_ENV_FILE"
        assert name in problem.what
        assert "PYOCO_LOAD_DOTENV=0" in problem.what

    @pytest.mark.parametrize("name", ["a\nb", "x" * 5000])
    def test_an_impossible_file_name_is_refused_on_one_line(self, name: str) -> None:
        error = refusal(TopologySettings, {"PYOCO_ENV_FILE": name})
        assert str(error).isprintable()
        assert len(str(error)) < 400

    def test_a_missing_selected_file_is_ignored_when_disabled(self) -> None:
        environ = {"PYOCO_ENV_FILE": "missing.env", "PYOCO_LOAD_DOTENV": "0"}
        assert load_settings(TopologySettings, environ) == TopologySettings()

    def test_a_file_that_is_not_text_is_refused(self, dotenv: Path) -> None:
        dotenv.write_bytes(b"PYOCO_REPLICAS=\xff\xfe\n")
        assert "UTF-8" in str(refusal(TopologySettings, {}))

    @pytest.mark.parametrize(
        "line", ["PYOCO_REPLICAS", 'PYOCO_REPLICAS="3', "PYOCO_REPLICAS 3", "PYOCO_REPLICAS='3' 4"]
    )
    def test_an_invalid_line_is_refused_with_its_number(self, dotenv: Path, line: str) -> None:
        dotenv.write_text(f"A=1\n\n{line}\nB=2\n")
        assert "line 3:" in str(refusal(TopologySettings, {}))

    def test_an_invalid_line_without_our_prefix_is_ignored(self, dotenv: Path) -> None:
        dotenv.write_text("set -a; B C\nPYOCO_REPLICAS=3\n")
        assert load_settings(TopologySettings, {}).replicas == 3

    def test_an_invalid_value_in_the_file_is_refused(self, dotenv: Path) -> None:
        dotenv.write_text("PYOCO_REPLICAS=many\n")
        assert refusal(TopologySettings, {}).problems[0].variable == "PYOCO_REPLICAS"

    def test_a_byte_order_mark_is_skipped(self, dotenv: Path) -> None:
        dotenv.write_text("PYOCO_REPLICAS=3\n", "utf-8-sig")
        assert load_settings(TopologySettings, {}).replicas == 3

    @pytest.mark.parametrize("value", ["maybe", "2"])
    def test_the_setting_that_disables_the_file_is_validated(self, value: str) -> None:
        error = refusal(TopologySettings, {"PYOCO_LOAD_DOTENV": value})
        assert error.problems[0].variable == "PYOCO_LOAD_DOTENV"

    def test_the_file_cannot_select_another_file(self, dotenv: Path) -> None:
        dotenv.write_text("PYOCO_ENV_FILE=missing.env\nPYOCO_REPLICAS=3\n")
        assert load_settings(TopologySettings, {}).replicas == 3


def test_an_unknown_variable_is_found_with_the_most_similar_setting() -> None:
    environ = {
        "PYOCO_NATS_URI": "x",
        "PYOCO_ACK_WAIT_SEC": "30",
        "PYOCO_SOMETHING_ELSE": "x",
        "pyoco_log_level": "DEBUG",
        "PYOCO_LOG_LEVEL": "DEBUG",
        "PYOCO_DISCOVERY_MODULES": "flows",
        "PYOCO_API_KEY": "k",
        "PATH": "/bin",
    }
    assert unknown_variables(environ) == [
        ("PYOCO_ACK_WAIT_SEC", "PYOCO_CONSUMER_ACK_WAIT_SEC"),
        ("PYOCO_NATS_URI", "PYOCO_NATS_URL"),
        ("PYOCO_SOMETHING_ELSE", None),
        ("pyoco_log_level", "PYOCO_LOG_LEVEL"),
    ]


def test_no_setting_is_reported_as_unknown() -> None:
    assert unknown_variables({row.variable: row.example for row in document_settings()}) == []


def test_a_setting_without_effect_has_a_note() -> None:
    assert settings_notes({"PYOCO_LOG_LEVEL": "INFO"}) == []
    (note,) = settings_notes({"PYOCO_WORKERS_KV_TTL_SEC": "15"})
    assert note.startswith("PYOCO_WORKERS_KV_TTL_SEC has no effect")
