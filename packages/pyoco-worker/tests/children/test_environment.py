from pyoco_worker.children.environment import child_environment

WORKERS = {
    "PATH": "/usr/bin",
    "HOME": "/home/w",
    "LANG": "ja_JP.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "Asia/Tokyo",
    "PYTHONPATH": "/flows",
    "PYOCO_NATS_URL": "nats://user:secret@broker",
    "PYOCO_AUTH_PEPPER": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "eu",
    "DATABASE_URL": "postgres://secret",
    "path": "no such thing",
    "LC": "not a locale",
}


def test_user_code_sees_what_programs_need_and_no_secret() -> None:
    seen = child_environment(WORKERS)
    assert seen == {
        name: WORKERS[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "PYTHONPATH")
    }


def test_an_operator_names_what_else_it_sees() -> None:
    seen = child_environment(WORKERS, ["AWS_*", "DATABASE_URL"])
    assert seen["AWS_REGION"] == "eu"
    assert seen["DATABASE_URL"] == "postgres://secret"
    assert "PYOCO_NATS_URL" not in seen
    assert "PYOCO_AUTH_PEPPER" not in seen


def test_a_name_is_not_a_beginning() -> None:
    assert "AWS_REGION" not in child_environment(WORKERS, ["AWS", "AWS_"])


def test_an_empty_environment_stays_empty() -> None:
    assert child_environment({}) == {}
