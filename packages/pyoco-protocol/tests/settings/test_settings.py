import math
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
    HeartbeatSettings,
    HttpAuthSettings,
    LogSettings,
    PyocoSettings,
    SettingDoc,
    SettingsError,
    SnapshotSettings,
    TopologySettings,
    WheelSettings,
    WorkerSettings,
    document_settings,
    load_settings,
    read_environment,
    settings_notes,
    unknown_variables,
)

# The settings of the published specification and their defaults, then those added to it.
PUBLISHED = {
    "PYOCO_NATS_URL": "nats://127.0.0.1:4222",
    "PYOCO_WORK_SUBJECT_PREFIX": "pyoco.work",
    "PYOCO_DEFAULT_TAG": "default",
    "PYOCO_RUNS_KV_BUCKET": "pyoco_runs",
    "PYOCO_WORKERS_KV_BUCKET": "pyoco_workers",
    "PYOCO_HTTP_AUTH_MODE": "none",
    "PYOCO_HTTP_API_KEY_HEADER": "X-API-Key",
    "PYOCO_AUTH_KV_BUCKET": "pyoco_auth",
    "PYOCO_AUTH_PEPPER": "",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "1.0",
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "5.0",
    "PYOCO_WORKERS_KV_TTL_SEC": "15.0",
    "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "20.0",
    "PYOCO_CANCEL_GRACE_PERIOD_SEC": "30.0",
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "30.0",
    "PYOCO_CONSUMER_MAX_DELIVER": "20",
    "PYOCO_CONSUMER_MAX_ACK_PENDING": "200",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "10.0",
    "PYOCO_DLQ_STREAM": "PYOCO_DLQ",
    "PYOCO_DLQ_SUBJECT_PREFIX": "pyoco.dlq",
    "PYOCO_DLQ_PUBLISH_EXECUTION_ERROR": "true",
    "PYOCO_DLQ_MAX_AGE_SEC": "604800",
    "PYOCO_DLQ_MAX_MSGS": "100000",
    "PYOCO_DLQ_MAX_BYTES": "536870912",
    "PYOCO_MAX_RUN_SNAPSHOT_BYTES": "262144",
    "PYOCO_WORKFLOW_YAML_MAX_BYTES": "262144",
    "PYOCO_WHEEL_OBJECT_STORE_BUCKET": "pyoco_wheels",
    "PYOCO_WHEEL_MAX_BYTES": "536870912",
    "PYOCO_WHEEL_SYNC_ENABLED": "false",
    "PYOCO_WHEEL_SYNC_DIR": ".pyoco/wheels",
    "PYOCO_WHEEL_SYNC_INTERVAL_SEC": "10.0",
    "PYOCO_WHEEL_INSTALL_TIMEOUT_SEC": "180.0",
    "PYOCO_WHEEL_HISTORY_KV_BUCKET": "pyoco_wheel_history",
    "PYOCO_WHEEL_HISTORY_TTL_SEC": "7776000",
    "PYOCO_DASHBOARD_LANG": "auto",
    "PYOCO_LOAD_DOTENV": "true",
    "PYOCO_ENV_FILE": ".env",
    "PYOCO_LOG_LEVEL": "INFO",
    "PYOCO_LOG_FORMAT": "json",
    "PYOCO_LOG_UTC": "true",
    "PYOCO_LOG_INCLUDE_TRACEBACK": "true",
}
ADDED = {
    "PYOCO_REPLICAS": "1",
    "PYOCO_WORK_STREAM": "PYOCO_WORK",
    "PYOCO_MAX_PARAMS_BYTES": "196608",
    "PYOCO_RUN_RETENTION_SEC": "2592000",
    "PYOCO_RUN_LOG_STREAM": "PYOCO_RUN_LOGS",
    "PYOCO_RUN_LOG_SUBJECT_PREFIX": "pyoco.logs",
    "PYOCO_RUN_LOG_MAX_AGE_SEC": "604800",
    "PYOCO_RUN_LOG_MAX_STREAM_BYTES": "1073741824",
    "PYOCO_RUN_LOG_MAX_BYTES": "1048576",
    "PYOCO_WORKER_DATA_DIR": ".pyoco/worker",
    "PYOCO_WORKER_PASS_ENV": "",
    "PYOCO_CALLABLE_ALLOW": "",
    "PYOCO_WORKFLOWS_OBJECT_STORE_BUCKET": "pyoco_workflows",
    "PYOCO_NATS_USER": "",
    "PYOCO_NATS_PASSWORD": "",
    "PYOCO_NATS_CREDS": "",
    "PYOCO_NATS_TLS_CA": "",
    "PYOCO_NATS_TLS_CERT": "",
    "PYOCO_NATS_TLS_KEY": "",
    "PYOCO_NATS_INBOX_PREFIX": "_INBOX",
    "PYOCO_WORKER_TAGS": "",
    "PYOCO_WORKER_PREPARES_BROKER": "true",
    "PYOCO_JOB_SIGNING_KEY": "",
    "PYOCO_SSE_MAX_STREAMS": "2000",
    "PYOCO_SSE_MAX_STREAMS_PER_PEER": "256",
    "PYOCO_HTTP_DOCS": "auto",
    "PYOCO_ALLOWED_HOSTS": "",
    "PYOCO_TRUSTED_PROXIES": "",
    "PYOCO_HTTP_REQUEST_TIMEOUT_SEC": "60.0",
    "PYOCO_HTTP_BODY_TIMEOUT_SEC": "10.0",
    "PYOCO_HTTP_HEADER_TIMEOUT_SEC": "10.0",
    "PYOCO_HTTP_MAX_HEADERS": "100",
    "PYOCO_HTTP_MAX_HEADER_BYTES": "32768",
    "PYOCO_SSE_MAX_STREAMS_PER_KEY": "256",
    "PYOCO_RATE_PER_KEY": "1000",
    "PYOCO_RATE_PER_KEY_BURST": "5000",
    "PYOCO_RATE_PER_PEER": "0",
    "PYOCO_RATE_PER_PEER_BURST": "1000",
    "PYOCO_AUTH_FAILURES_PER_MIN": "20",
}
NUMBERS = [
    (group, f"PYOCO_{name.upper()}")
    for group in GROUPS
    for name, field in group.model_fields.items()
    if field.annotation in {int, float}
]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the .env file of whoever runs the tests out of them."""
    monkeypatch.chdir(tmp_path)


def group_of(variable: str) -> type[PyocoSettings]:
    return next(g for g in GROUPS if variable.removeprefix("PYOCO_").lower() in g.model_fields)


def refusal(group: type[PyocoSettings], environ: dict[str, str]) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load_settings(group, environ)
    return caught.value


def test_every_published_variable_is_there_with_its_default() -> None:
    assert {row.variable: row.default for row in document_settings()} == {**PUBLISHED, **ADDED}


def test_no_variable_is_in_two_groups() -> None:
    variables = [row.variable for row in document_settings()]
    assert len(set(variables)) == len(variables)


# Alone they mean nothing, or they name a file that must be there.
TOGETHER = {
    "PYOCO_NATS_USER",
    "PYOCO_NATS_PASSWORD",
    "PYOCO_NATS_CREDS",
    "PYOCO_NATS_TLS_CA",
    "PYOCO_NATS_TLS_CERT",
    "PYOCO_NATS_TLS_KEY",
}


@pytest.mark.parametrize(
    "row",
    [row for row in document_settings() if row.variable not in TOGETHER],
    ids=lambda row: row.variable,
)
def test_a_variable_says_what_it_means_and_its_example_is_accepted(
    row: tuple[str, str, str, str], tmp_path: Path
) -> None:
    variable, _, meaning, example = row
    assert meaning.endswith(".")
    if variable == "PYOCO_ENV_FILE":
        example = str(tmp_path / "server.env")
        Path(example).touch()
    load_settings(group_of(variable), {variable: example})


@pytest.mark.parametrize("group", GROUPS)
def test_nothing_set_means_the_defaults(group: type[PyocoSettings]) -> None:
    assert load_settings(group, {}) == group()


def test_building_a_group_reads_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("PYOCO_REPLICAS=3\n")
    monkeypatch.setenv("PYOCO_REPLICAS", "5")
    monkeypatch.setenv("REPLICAS", "5")
    assert TopologySettings().replicas == 1
    assert (
        load_settings(TopologySettings, {"REPLICAS": "5", "PYOCO_LOAD_DOTENV": "0"}).replicas == 1
    )


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_REPLICAS", "3")
    assert load_settings(TopologySettings).replicas == 3


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        setattr(TopologySettings(), "replicas", 3)  # noqa: B010 - mypy would refuse the plain way


def test_a_misspelt_argument_is_refused() -> None:
    with pytest.raises(ValidationError):
        TopologySettings(replica=3)  # type: ignore[call-arg]  # the point


@pytest.mark.parametrize(("group", "variable"), NUMBERS)
@pytest.mark.parametrize(
    "value", ["nan", "inf", "-inf", "1e999", "abc", "-1", "1.5.2", "0x10", "9" * 40, "", " "]
)
def test_a_bad_number_is_refused_by_name(
    group: type[PyocoSettings], variable: str, value: str
) -> None:
    error = refusal(group, {variable: value})
    assert [problem.variable for problem in error.problems] == [variable]
    example = error.problems[0].example
    assert f"{variable}={example}" in str(error)
    assert math.isfinite(float(example))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PYOCO_NATS_URL", "127.0.0.1:4222"),
        ("PYOCO_NATS_URL", "http://127.0.0.1:4222"),
        ("PYOCO_NATS_URL", "nats://"),
        ("PYOCO_NATS_URL", "nats://host:notaport"),
        ("PYOCO_NATS_URL", "nats://host:70000"),
        ("PYOCO_NATS_URL", "nats://a:4222,,nats://b:4222"),
        ("PYOCO_NATS_URL", "nats://a b:4222"),
        ("PYOCO_REPLICAS", "0"),
        ("PYOCO_REPLICAS", "6"),
        ("PYOCO_DEFAULT_TAG", "a.b"),
        ("PYOCO_DEFAULT_TAG", "a b"),
        ("PYOCO_DEFAULT_TAG", "*"),
        ("PYOCO_DEFAULT_TAG", "default\n"),
        ("PYOCO_DEFAULT_TAG", "x" * 65),
        ("PYOCO_RUNS_KV_BUCKET", "a.b"),
        ("PYOCO_RUNS_KV_BUCKET", "a/b"),
        ("PYOCO_WORK_STREAM", "a.b"),
        ("PYOCO_WORK_SUBJECT_PREFIX", "pyoco..work"),
        ("PYOCO_WORK_SUBJECT_PREFIX", ".work"),
        ("PYOCO_WORK_SUBJECT_PREFIX", "pyoco.work."),
        ("PYOCO_WORK_SUBJECT_PREFIX", "pyoco.>"),
        ("PYOCO_WORK_SUBJECT_PREFIX", "$SYS.x"),
        ("PYOCO_HTTP_AUTH_MODE", "basic"),
        ("PYOCO_HTTP_API_KEY_HEADER", "X API Key"),
        ("PYOCO_HTTP_API_KEY_HEADER", "X-Key: 1"),
        ("PYOCO_DASHBOARD_LANG", "fr"),
        ("PYOCO_LOG_LEVEL", "LOUD"),
        ("PYOCO_LOG_FORMAT", "xml"),
        ("PYOCO_MAX_PARAMS_BYTES", "1048576"),
        ("PYOCO_MAX_RUN_SNAPSHOT_BYTES", "2097152"),
        ("PYOCO_AUTH_PEPPER", ""),
    ],
)
def test_a_value_of_the_wrong_shape_is_refused_by_name(variable: str, value: str) -> None:
    error = refusal(group_of(variable), {variable: value})
    assert [problem.variable for problem in error.problems] == [variable]
    assert error.entry.err_id == "ERR-PYOCO-0108"
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", False), ("1", True), ("true", True), ("False", False), ("TRUE", True)],
)
def test_a_switch_takes_these_words(text: str, value: bool) -> None:
    assert load_settings(LogSettings, {"PYOCO_LOG_UTC": text}).log_utc is value


@pytest.mark.parametrize("text", ["yes", "no", "on", "off", "t", "2", "-1", "", " true"])
def test_a_switch_takes_no_others(text: str) -> None:
    assert refusal(LogSettings, {"PYOCO_LOG_UTC": text}).problems[0].variable == "PYOCO_LOG_UTC"


def test_all_bad_values_of_a_group_are_told_at_once() -> None:
    error = refusal(
        ConsumerSettings,
        {"PYOCO_CONSUMER_ACK_WAIT_SEC": "soon", "PYOCO_CONSUMER_MAX_DELIVER": "0"},
    )
    assert [problem.variable for problem in error.problems] == [
        "PYOCO_CONSUMER_ACK_WAIT_SEC",
        "PYOCO_CONSUMER_MAX_DELIVER",
    ]
    assert "'soon' is refused" in str(error)


def test_words_are_understood_in_any_case() -> None:
    environ = {"PYOCO_LOG_LEVEL": "debug", "PYOCO_LOG_FORMAT": "TEXT"}
    settings = load_settings(LogSettings, environ)
    assert (settings.log_level, settings.log_format) == ("DEBUG", "text")
    assert load_settings(DashboardSettings, {"PYOCO_DASHBOARD_LANG": "JA"}).dashboard_lang == "ja"


def test_paths_and_switches_become_what_they_are() -> None:
    environ = {"PYOCO_WHEEL_SYNC_ENABLED": "1", "PYOCO_WHEEL_SYNC_DIR": "/srv/wheels"}
    wheels = load_settings(WheelSettings, environ)
    assert (wheels.wheel_sync_enabled, wheels.wheel_sync_dir) == (True, Path("/srv/wheels"))
    dlq = load_settings(DlqSettings, {"PYOCO_DLQ_PUBLISH_EXECUTION_ERROR": "false"})
    assert dlq.dlq_publish_execution_error is False


@pytest.mark.parametrize(("ack_wait", "progress"), [("10", "10"), ("5", "10"), ("0.5", "0.6")])
def test_progress_that_does_not_outpace_ack_wait_is_refused(ack_wait: str, progress: str) -> None:
    environ = {
        "PYOCO_CONSUMER_ACK_WAIT_SEC": ack_wait,
        "PYOCO_ACK_PROGRESS_INTERVAL_SEC": progress,
    }
    (problem,) = refusal(ConsumerSettings, environ).problems
    assert problem.variable == "PYOCO_ACK_PROGRESS_INTERVAL_SEC"
    assert "PYOCO_CONSUMER_ACK_WAIT_SEC" in problem.what
    load_settings(ConsumerSettings, {**environ, problem.variable: problem.example})


@pytest.mark.parametrize("params", ["262144", "300000"])
def test_params_that_do_not_fit_into_their_snapshot_are_refused(params: str) -> None:
    environ = {"PYOCO_MAX_PARAMS_BYTES": params}
    (problem,) = refusal(SnapshotSettings, environ).problems
    assert problem.variable == "PYOCO_MAX_PARAMS_BYTES"
    assert "PYOCO_MAX_RUN_SNAPSHOT_BYTES" in problem.what
    load_settings(SnapshotSettings, {**environ, problem.variable: problem.example})


def test_a_smaller_snapshot_asks_for_smaller_params() -> None:
    environ = {"PYOCO_MAX_RUN_SNAPSHOT_BYTES": "65536"}
    (problem,) = refusal(SnapshotSettings, environ).problems
    assert problem.example == "49152"
    settings = load_settings(SnapshotSettings, {**environ, problem.variable: problem.example})
    assert settings.max_params_bytes < settings.max_run_snapshot_bytes


def test_a_heartbeat_slower_than_its_timeout_is_refused() -> None:
    environ = {"PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "5"}
    (problem,) = refusal(HeartbeatSettings, environ).problems
    assert problem.variable == "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC"
    load_settings(HeartbeatSettings, {**environ, problem.variable: problem.example})


@pytest.mark.parametrize(
    "environ",
    [
        {"PYOCO_DLQ_STREAM": "PYOCO_WORK"},
        {"PYOCO_DLQ_SUBJECT_PREFIX": "pyoco.work"},
        {"PYOCO_DLQ_SUBJECT_PREFIX": "pyoco.work.dead"},
        {"PYOCO_DLQ_SUBJECT_PREFIX": "pyoco"},
        {"PYOCO_RUN_LOG_STREAM": "PYOCO_WORK"},
        {"PYOCO_RUN_LOG_STREAM": "PYOCO_DLQ"},
        {"PYOCO_RUN_LOG_SUBJECT_PREFIX": "pyoco.work"},
        {"PYOCO_RUN_LOG_SUBJECT_PREFIX": "pyoco.dlq.logs"},
        {"PYOCO_AUTH_KV_BUCKET": "pyoco_runs"},
    ],
)
def test_two_things_never_share_a_name(environ: dict[str, str]) -> None:
    (problem,) = refusal(TopologySettings, environ).problems
    assert problem.variable in environ
    load_settings(TopologySettings, {**environ, problem.variable: problem.example})


def test_prefixes_that_only_look_alike_are_fine() -> None:
    environ = {"PYOCO_DLQ_SUBJECT_PREFIX": "pyoco.work-dead"}
    assert load_settings(TopologySettings, environ).dlq_subject_prefix == "pyoco.work-dead"


def test_a_secret_is_in_no_message_and_no_repr() -> None:
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


def test_the_address_of_the_broker_can_be_shown() -> None:
    url = "nats://user:p@ss@a.example:4222, tls://token@[::1]:4223"
    settings = load_settings(BrokerSettings, {"PYOCO_NATS_URL": url})
    assert settings.nats_url == url
    assert settings.nats_address == "nats://a.example:4222,tls://[::1]:4223"


def test_a_long_or_odd_value_is_shown_short_and_on_one_line() -> None:
    error = refusal(LogSettings, {"PYOCO_LOG_LEVEL": "\x1b[31m\n" + "x" * 10_000})
    assert len(str(error)) < 400
    assert str(error).isprintable()


def test_limits_of_zero_mean_no_limit() -> None:
    environ = {"PYOCO_DLQ_MAX_AGE_SEC": "0", "PYOCO_DLQ_MAX_MSGS": "0", "PYOCO_DLQ_MAX_BYTES": "0"}
    settings = load_settings(TopologySettings, environ)
    assert (settings.dlq_max_age_sec, settings.dlq_max_msgs, settings.dlq_max_bytes) == (0, 0, 0)
    assert load_settings(SnapshotSettings, {"PYOCO_RUN_RETENTION_SEC": "0"}).run_retention_sec == 0
    environ = {"PYOCO_CANCEL_GRACE_PERIOD_SEC": "0"}
    assert load_settings(HeartbeatSettings, environ).cancel_grace_period_sec == 0


def test_whole_seconds_may_be_written_with_a_point() -> None:
    environ = {"PYOCO_DLQ_MAX_AGE_SEC": "604800.0"}
    assert load_settings(TopologySettings, environ).dlq_max_age_sec == 604_800


@given(st.sampled_from(document_settings()), st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_gives_settings_or_a_refusal_by_name(row: SettingDoc, text: str) -> None:
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
            "# ours\nPYOCO_REPLICAS=3\nexport PYOCO_DEFAULT_TAG='gpu' # why\nOTHER=1\n", "utf-8"
        )
        return path

    def test_it_is_honoured(self, dotenv: Path) -> None:
        settings = load_settings(TopologySettings, {})
        assert (settings.replicas, settings.default_tag) == (3, "gpu")

    def test_the_environment_wins(self, dotenv: Path) -> None:
        settings = load_settings(TopologySettings, {"PYOCO_REPLICAS": "5"})
        assert (settings.replicas, settings.default_tag) == (5, "gpu")

    def test_it_can_be_switched_off(self, dotenv: Path) -> None:
        assert load_settings(TopologySettings, {"PYOCO_LOAD_DOTENV": "0"}) == TopologySettings()

    def test_a_named_file_takes_its_place(self, dotenv: Path, tmp_path: Path) -> None:
        (tmp_path / "other.env").write_text("PYOCO_DEFAULT_TAG=other\n")
        settings = load_settings(TopologySettings, {"PYOCO_ENV_FILE": "other.env"})
        assert (settings.replicas, settings.default_tag) == (1, "other")

    def test_what_it_says_of_others_is_not_read(self, dotenv: Path) -> None:
        assert read_environment({"A": "1"}) == {
            "A": "1",
            "PYOCO_REPLICAS": "3",
            "PYOCO_DEFAULT_TAG": "gpu",
        }

    def test_values_are_taken_as_they_are(
        self, dotenv: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", "/elsewhere")
        dotenv.write_text("PYOCO_AUTH_PEPPER=a${HOME}$b\n")
        auth = load_settings(HttpAuthSettings, {})
        assert auth.auth_pepper is not None
        assert auth.auth_pepper.get_secret_value() == "a${HOME}$b"

    def test_a_missing_default_file_is_fine(self) -> None:
        assert load_settings(TopologySettings, {}) == TopologySettings()

    def test_a_default_file_that_is_a_directory_is_fine(self, tmp_path: Path) -> None:
        (tmp_path / ".env").mkdir()
        assert load_settings(TopologySettings, {}) == TopologySettings()

    @pytest.mark.parametrize("name", [".env", "missing.env", "directory", "/dev/null/x"])
    def test_a_named_file_that_is_not_there_is_refused(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "directory").mkdir()
        (problem,) = refusal(TopologySettings, {"PYOCO_ENV_FILE": name}).problems
        assert problem.variable == "PYOCO_ENV_FILE"
        assert name in problem.what
        assert "PYOCO_LOAD_DOTENV=0" in problem.what

    @pytest.mark.parametrize("name", ["a\nb", "x" * 5000])
    def test_a_name_no_file_can_have_is_refused_on_one_line(self, name: str) -> None:
        error = refusal(TopologySettings, {"PYOCO_ENV_FILE": name})
        assert str(error).isprintable()
        assert len(str(error)) < 400

    def test_a_missing_file_is_not_looked_for_when_switched_off(self) -> None:
        environ = {"PYOCO_ENV_FILE": "missing.env", "PYOCO_LOAD_DOTENV": "0"}
        assert load_settings(TopologySettings, environ) == TopologySettings()

    def test_a_file_that_is_not_text_is_refused(self, dotenv: Path) -> None:
        dotenv.write_bytes(b"PYOCO_REPLICAS=\xff\xfe\n")
        assert "UTF-8" in str(refusal(TopologySettings, {}))

    @pytest.mark.parametrize(
        "line", ["PYOCO_REPLICAS", 'PYOCO_REPLICAS="3', "PYOCO_REPLICAS 3", "PYOCO_REPLICAS='3' 4"]
    )
    def test_a_line_that_cannot_be_read_is_refused_by_its_number(
        self, dotenv: Path, line: str
    ) -> None:
        dotenv.write_text(f"A=1\n\n{line}\nB=2\n")
        assert "line 3:" in str(refusal(TopologySettings, {}))

    def test_a_line_of_others_that_cannot_be_read_is_passed_over(self, dotenv: Path) -> None:
        dotenv.write_text("set -a; B C\nPYOCO_REPLICAS=3\n")
        assert load_settings(TopologySettings, {}).replicas == 3

    def test_a_bad_value_in_it_is_refused(self, dotenv: Path) -> None:
        dotenv.write_text("PYOCO_REPLICAS=many\n")
        assert refusal(TopologySettings, {}).problems[0].variable == "PYOCO_REPLICAS"

    def test_a_byte_order_mark_is_no_part_of_the_first_name(self, dotenv: Path) -> None:
        dotenv.write_text("PYOCO_REPLICAS=3\n", "utf-8-sig")
        assert load_settings(TopologySettings, {}).replicas == 3

    @pytest.mark.parametrize("value", ["maybe", "", "2"])
    def test_its_own_switch_is_checked_too(self, value: str) -> None:
        error = refusal(TopologySettings, {"PYOCO_LOAD_DOTENV": value})
        assert error.problems[0].variable == "PYOCO_LOAD_DOTENV"

    def test_it_cannot_send_us_to_another_file(self, dotenv: Path) -> None:
        dotenv.write_text("PYOCO_ENV_FILE=missing.env\nPYOCO_REPLICAS=3\n")
        assert load_settings(TopologySettings, {}).replicas == 3


def test_a_misspelt_variable_is_found_and_the_right_one_named() -> None:
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


def test_no_variable_of_ours_is_unknown() -> None:
    assert unknown_variables({row.variable: row.example for row in document_settings()}) == []


def test_a_setting_without_effect_is_told() -> None:
    assert settings_notes({"PYOCO_LOG_LEVEL": "INFO"}) == []
    (note,) = settings_notes({"PYOCO_WORKERS_KV_TTL_SEC": "15"})
    assert note.startswith("PYOCO_WORKERS_KV_TTL_SEC has no effect")


def test_the_modules_that_may_be_called_are_a_list_or_not_set() -> None:
    assert WorkerSettings().allowed_modules is None
    assert WorkerSettings(callable_allow=" etl, my.tasks ,").allowed_modules == ("etl", "my.tasks")
    with pytest.raises(SettingsError, match="PYOCO_CALLABLE_ALLOW"):
        load_settings(WorkerSettings, {"PYOCO_LOAD_DOTENV": "0", "PYOCO_CALLABLE_ALLOW": "etl:f"})


def test_workflows_and_wheels_do_not_share_a_bucket() -> None:
    environ = {"PYOCO_LOAD_DOTENV": "0", "PYOCO_WORKFLOWS_OBJECT_STORE_BUCKET": "pyoco_wheels"}
    with pytest.raises(SettingsError, match="PYOCO_WORKFLOWS_OBJECT_STORE_BUCKET"):
        load_settings(TopologySettings, environ)
