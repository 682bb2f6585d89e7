"""`airflow.cfg` as settings: every line has a place here or a reason. docs/migration.md, "Settings"."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiosched.config import setting_fields
from aiosched.errors import ConfigError
from aiosched.migration.cfg import (
    SettingFate,
    as_toml,
    fernet_keys,
    from_environment,
    on_this_machine,
    read_cfg,
    translate,
)
from aiosched.migration.cfg_table import OLD_NAMES, OPTIONS, SECTIONS, OurSetting


def test_every_place_in_the_table_is_a_setting() -> None:
    known = {field.key for field in setting_fields()}

    assert {entry.key for entry in OPTIONS.values() if isinstance(entry, OurSetting)} <= known
    assert all(place in OPTIONS or place[0] in SECTIONS for place in OLD_NAMES.values())


@pytest.mark.parametrize(
    ("section", "option", "value", "fate", "key", "found"),
    [
        ("core", "parallelism", "16", SettingFate.SET, "core.parallelism", 16),
        ("core", "parallelism", "0", SettingFate.SET, "core.parallelism", 1),
        ("core", "parallelism", "32", SettingFate.DEFAULT, "core.parallelism", 32),
        ("scheduler", "catchup_by_default", "False", SettingFate.SET, "scheduler.catchup_by_default", False),
        ("core", "dag_concurrency", "4", SettingFate.SET, "core.max_active_tasks_per_dag", 4),
        ("core", "executor", "airflow.providers.celery.executors.celery_executor.CeleryExecutor", SettingFate.SET,
         "executor.kind", "celery"),
        ("core", "executor", "LocalExecutor,KubernetesExecutor", SettingFate.SET, "executor.kind", "local,kubernetes"),
        ("core", "executor", "MyExecutor", SettingFate.INVALID, "executor.kind", "MyExecutor"),
        ("core", "default_timezone", "Nowhere/City", SettingFate.INVALID, "core.default_timezone", "Nowhere/City"),
        ("core", "default_timezone", "utc", SettingFate.DEFAULT, "core.default_timezone", "UTC"),
        ("core", "default_timezone", "system", SettingFate.INVALID, "core.default_timezone", "system"),
        ("core", "default_task_execution_timeout", "", SettingFate.DEFAULT, "core.default_task_execution_timeout",
         None),
        ("scheduler", "catchup_by_default", "True", SettingFate.SET, "scheduler.catchup_by_default", True),
        ("scheduler", "max_threads", "2", SettingFate.SET, "parsing.processes", 2),
        ("logging", "delete_local_logs", "True", SettingFate.SET, "logs.keep_local", False),
        ("scheduler", "scheduler_heartbeat_sec", "5", SettingFate.NOT_NEEDED, None, None),
        ("celery", "worker_concurrency", "16", SettingFate.NOT_NEEDED, None, None),
        ("ours", "thing", "1", SettingFate.UNKNOWN, None, None),
    ],
)  # fmt: skip
def test_a_setting_has_a_place_or_a_reason(
    section: str, option: str, value: str, fate: SettingFate, key: str | None, found: object
) -> None:
    (line,) = translate({(section, option): value})

    assert (line.fate, line.key, line.value) == (fate, key, found)
    assert line.note or fate in (SettingFate.SET, SettingFate.DEFAULT)


def test_the_file_and_the_environment_are_read_and_the_environment_wins(tmp_path: Path) -> None:
    path = tmp_path / "airflow.cfg"
    path.write_text("[core]\nparallelism = 3\nfernet_key = 100%%\n\n[core]\ndags_folder = /dags\n")
    environ = {"AIRFLOW__CORE__PARALLELISM": "9", "AIRFLOW_HOME": "/x", "AIRFLOW__SMTP__SMTP_HOST": "mail"}

    cfg = read_cfg(path, environ)

    assert cfg["core", "parallelism"] == "9"
    assert cfg["core", "dags_folder"] == "/dags"
    assert from_environment(environ) == {("core", "parallelism"): "9", ("smtp", "smtp_host"): "mail"}
    assert fernet_keys(cfg) == ["100%%"]
    assert as_toml(translate(cfg)) == '[core]\ndags_folder = "/dags"\nparallelism = 9  # for each scheduler'


def test_a_file_that_is_no_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"airflow\.cfg cannot be read: No such file"):
        read_cfg(tmp_path / "airflow.cfg", {})
    (tmp_path / "airflow.cfg").write_text("parallelism = 3")
    with pytest.raises(ConfigError, match=r"airflow\.cfg cannot be read: File contains no section headers"):
        read_cfg(tmp_path / "airflow.cfg", {})


@pytest.mark.parametrize("section", ["metrics", "scheduler"])
def test_what_airflow_has_turned_off_stays_off(section: str) -> None:
    cfg = {
        (section, "statsd_on"): "False", (section, "statsd_host"): "localhost", (section, "statsd_prefix"): "air",
        ("logging", "remote_base_log_folder"): "s3://logs",
    }  # fmt: skip
    assert not as_toml(translate(cfg))

    cfg |= {(section, "statsd_on"): "True", ("logging", "remote_logging"): "true"}
    assert as_toml(translate(cfg)).splitlines() == [
        "[logs]", 'remote = "s3://logs"  # its options: logs.remote_options', "",
        "[metrics]", 'statsd_host = "localhost"', 'statsd_prefix = "air"',
    ]  # fmt: skip


def test_folders_of_airflows_machine_do_not_become_settings(tmp_path: Path) -> None:
    there = {("core", "dags_folder"): "/opt/airflow/dags", ("core", "plugins_folder"): "/nowhere/plugins"}
    there |= {("logging", "base_log_folder"): str(tmp_path)}

    lines = on_this_machine(translate(there), tmp_path / "dags")

    assert {line.option: line.value for line in lines if line.fate is SettingFate.SET} == {
        "dags_folder": str(tmp_path / "dags"), "base_log_folder": str(tmp_path),
    }  # fmt: skip
