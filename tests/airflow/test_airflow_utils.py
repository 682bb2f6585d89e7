"""Functions of Airflow's `utils` and its configuration."""

# ruff: noqa: DTZ001 - naive dates are what these functions take

from __future__ import annotations

import re
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from dateutil.relativedelta import relativedelta

from aiosched.airflow.configuration import COMPUTED, FIXED, SETTINGS, Configuration
from aiosched.airflow.objects.failures import AirflowConfigException
from aiosched.airflow.utils import dates, functions, security, strings, timezone
from aiosched.airflow.utils.state import DagRunState, StateNames, TaskInstanceState
from aiosched.authoring.base.settings import AuthoringDefaults, defaults, use_defaults
from aiosched.config import Settings, setting_fields
from aiosched.core.values.states import RunState, TaskState
from aiosched.errors import AioschedError, DagError
from tests.airflow.airflow_builders import using

conf = Configuration()


def test_days_ago_is_a_time_of_the_day_in_the_default_zone() -> None:
    with using(AuthoringDefaults(timezone="Europe/Amsterdam")):
        day, later = dates.days_ago(3), dates.days_ago(3, hour=5, minute=30)

    assert (day.hour, day.minute, day.microsecond) == (0, 0, 0)
    assert day.tzinfo == ZoneInfo("Europe/Amsterdam")
    assert later - day == timedelta(hours=5, minutes=30)


@pytest.mark.parametrize(
    ("arguments", "days"),
    [
        ({"end_date": datetime(2026, 1, 3), "delta": timedelta(1)}, [1, 2, 3]),
        ({"num": 3, "delta": timedelta(2)}, [1, 3, 5]),
        ({"num": -2, "delta": timedelta(1)}, [31, 1]),
        ({"end_date": datetime(2026, 1, 3), "delta": "0 0 * * *"}, [1, 2, 3]),
        ({"end_date": datetime(2026, 1, 3)}, []),
    ],
)
def test_ranges_of_dates(arguments: dict[str, object], days: list[int]) -> None:
    found = dates.date_range(datetime(2026, 1, 1), **arguments)  # type: ignore[arg-type]

    assert [date.day for date in found] == days


def test_a_range_has_one_end() -> None:
    with pytest.raises(ValueError, match="not both"):
        dates.date_range(datetime(2026, 1, 1), datetime(2026, 1, 2), 3, timedelta(1))


@pytest.mark.parametrize(
    ("date", "delta", "rounded"),
    [
        (datetime(2026, 1, 1, 6), timedelta(1), datetime(2026, 1, 1)),
        (datetime(2026, 1, 1, 20), timedelta(1), datetime(2026, 1, 2)),
        (datetime(2026, 2, 20), relativedelta(months=1), datetime(2026, 3, 1)),
        (datetime(2026, 1, 2), "@daily", datetime(2026, 1, 2)),
        (datetime(2026, 1, 2, 7), "@daily", datetime(2026, 1, 2)),
    ],
)
def test_dates_are_rounded(date: datetime, delta: object, rounded: datetime) -> None:
    assert dates.round_time(date, delta) == rounded  # type: ignore[arg-type]


def test_units_of_time() -> None:
    assert dates.infer_time_unit([130, 5400]) == "minutes"
    assert dates.infer_time_unit([110, 50, 10]) == "seconds"
    assert dates.scale_time_units([130, 5400, 10], "minutes") == pytest.approx([2.1667, 90, 0.1667], rel=1e-3)


def test_instants_get_a_zone() -> None:
    naive, aware = datetime(2026, 1, 1, 12), datetime(2026, 1, 1, 12, tzinfo=UTC)
    with using(AuthoringDefaults(timezone="Europe/Amsterdam")):
        assert timezone.make_aware(naive) == datetime(2026, 1, 1, 11, tzinfo=UTC)
        assert timezone.make_naive(aware) == datetime(2026, 1, 1, 13)
        assert timezone.convert_to_utc(naive) == datetime(2026, 1, 1, 11, tzinfo=UTC)
        assert timezone.parse("2026-01-01T12:00") == datetime(2026, 1, 1, 11, tzinfo=UTC)
    assert timezone.is_naive(naive)
    assert timezone.td_format(93_784) == "1d2h3min4s"
    with pytest.raises(ValueError, match="has a time zone"):
        timezone.make_aware(aware)


def test_states_have_the_names_of_aiosched() -> None:
    assert {state.value for state in TaskInstanceState} <= {state.value for state in TaskState}
    assert {state.value for state in DagRunState} == {state.value for state in RunState}
    assert StateNames.SUCCESS == "success"
    assert StateNames.finished == {"success", "failed", "skipped", "upstream_failed", "removed"}


def test_chain_linear_needs_two() -> None:
    with pytest.raises(DagError, match="at least two"):
        functions.chain_linear([], [])


def test_words_for_yes() -> None:
    assert strings.to_boolean("Yes")
    assert not strings.to_boolean("no")
    assert not strings.to_boolean(None)


def test_each_option_names_a_setting_that_exists() -> None:
    known = {field[0] for field in setting_fields()}

    assert [setting for setting in SETTINGS.values() if setting not in known] == []
    assert not SETTINGS.keys() & (FIXED.keys() | COMPUTED.keys())
    assert not COMPUTED.keys() & FIXED.keys()


def test_an_empty_value_is_a_value() -> None:
    assert Configuration().get("kubernetes", "worker_container_repository") == ""
    assert Configuration().has_option("kubernetes", "worker_container_tag")


def test_options_are_read_from_settings_the_environment_and_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ACME__LIMIT", "12")
    monkeypatch.setenv("AIRFLOW__CORE__PARALLELISM", "7")

    assert conf.getint("acme", "limit") == 12
    assert conf.getint("core", "parallelism") == 7
    assert conf.getint("core", "max_active_tasks_per_dag") == Settings().core.max_active_tasks_per_dag
    assert conf.getboolean("core", "load_examples") is False
    assert conf.get("nothing", "here", fallback="x") == "x"
    assert conf.getlist("nothing", "here", fallback=[1]) == [1]
    assert conf.has_option("acme", "limit")
    assert not conf.has_option("nothing", "here")
    assert conf.as_dict()["acme"] == {"limit": "12"}
    assert conf.getsection("acme") == {"limit": "12"}


@pytest.mark.parametrize(
    ("section", "option", "value"),
    [
        ("core", "plugins_folder", None),  # 2 and 3; here what it is here
        ("logging", "base_log_folder", None),
        ("core", "base_log_folder", None),  # 1.10
        ("webserver", "web_server_port", str(Settings().web.port)),
        ("api", "port", str(Settings().web.port)),
        ("core", "hostname_callable", "airflow.utils.net.getfqdn"),
        ("scheduler", "dag_dir_list_interval", "300"),
        ("celery", "worker_concurrency", "16"),
        ("CORE", "Unit_Test_Mode", "False"),
    ],
)
def test_options_of_every_generation_have_a_value(section: str, option: str, value: str | None) -> None:
    found = conf.get(section, option)

    assert found == value if value is not None else Path(found).is_absolute()


@pytest.mark.parametrize(
    ("section", "option"),
    [("core", "sql_alchemy_conn"), ("database", "sql_alchemy_conn"), ("core", "fernet_key"), ("celery", "broker_url")],
)
def test_secrets_and_services_that_are_not_there_have_none(section: str, option: str) -> None:
    with pytest.raises(AirflowConfigException, match="no such setting"):
        conf.get(section, option)
    assert conf.get(section, option, fallback=None) is None


CFG = """
[core]
parallelism = 7
killed_task_cleanup_time = 5
[spm]
SPM_DIR = /data/50%% full
empty =
[Acme Team]
limit: 12
[operators]
default_owner = data
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    use_defaults(replace(defaults(), module_folders=(str(tmp_path / "missing"), str(tmp_path))))
    (tmp_path / "airflow.cfg").write_text(CFG)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_own_sections_are_read_from_the_airflow_cfg_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    assert conf.get("spm", "SPM_DIR") == "/data/50% full"
    assert conf.get("spm", "empty") == ""
    assert conf.getint("acme team", "LIMIT") == 12
    assert conf.get("operators", "default_owner") == "data"
    assert conf.getint("core", "parallelism") == Settings().core.parallelism  # which is what counts here
    assert conf.getsection("spm") == {"spm_dir": "/data/50% full", "empty": ""}
    monkeypatch.setenv("AIRFLOW__SPM__SPM_DIR", "/else")
    assert conf.get("spm", "spm_dir") == "/else"


def test_variables_say_where_the_airflow_cfg_is(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home := project / "home").mkdir()
    (home / "airflow.cfg").write_text("[spm]\nspm_dir = of home\n")
    (project / "named.cfg").write_text("[spm]\nspm_dir = named\n")

    monkeypatch.setenv("AIRFLOW_HOME", str(home))
    assert conf.get("spm", "spm_dir") == "of home"
    monkeypatch.setenv("AIRFLOW_CONFIG", str(project / "named.cfg"))
    assert conf.get("spm", "spm_dir") == "named"


@pytest.mark.parametrize("text", [b"[spm]\nspm_dir = 50% full", b"no section", b"\xff\xfe[spm]"])
def test_an_airflow_cfg_that_cannot_be_read_is_named(project: Path, text: bytes) -> None:
    (project / "airflow.cfg").write_bytes(text)

    with pytest.raises(AirflowConfigException, match=re.escape(f"{project / 'airflow.cfg'} cannot be read")):
        conf.get("spm", "spm_dir")


def test_an_option_without_a_value_names_its_variable() -> None:
    with pytest.raises(AioschedError, match="AIRFLOW__NOTHING__HERE"):
        conf.get("nothing", "here")


def test_an_option_of_another_kind_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ACME__LIMIT", "many")

    with pytest.raises(AioschedError, match="not a whole number"):
        conf.getint("acme", "limit")


@pytest.mark.usefixtures("production")
def test_settings_are_not_changed() -> None:
    with pytest.raises(AioschedError, match="AIRFLOW__CORE__PARALLELISM"):
        conf.set("core", "parallelism", "3")


def test_principals_and_hosts_have_the_forms_of_kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getfqdn", lambda: "Node.Example")

    assert security.get_components("hive/_HOST@REALM") == ["hive", "_HOST", "REALM"]
    assert security.get_components(None) is None
    assert security.replace_hostname_pattern(["hive", "_HOST", "REALM"]) == "hive/node.example@REALM"
    assert security.replace_hostname_pattern(["hive", "_HOST", "REALM"], "DB") == "hive/db@REALM"
    assert security.replace_hostname_pattern(["hive", "_HOST", "REALM"], "0.0.0.0") == "hive/node.example@REALM"
    assert security.principal_from_username("ada", "REALM") == "ada@REALM"
    assert [security.principal_from_username(*one) for one in (("ada@X", "REALM"), ("ada", None))] == ["ada@X", "ada"]


def test_the_full_name_of_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: str) -> tuple[str, list[str], list[str]]:
        if host == "nowhere":
            raise OSError
        return ("localhost" if host == "127.0.0.1" else "db.example", [], [])

    monkeypatch.setattr("socket.gethostbyaddr", resolve)
    monkeypatch.setattr("socket.getfqdn", lambda: "here.example")

    found = [security.get_fqdn(host) for host in (None, "db", "127.0.0.1", "nowhere")]

    assert found == ["here.example", "db.example", "here.example", "nowhere"]


def test_the_address_of_the_web_server_is_a_setting() -> None:
    settings = Settings()
    assert AuthoringDefaults.of(settings).base_url == "http://127.0.0.1:8484"
    settings.web.prefix = "/flows"
    assert AuthoringDefaults.of(settings).base_url == "http://127.0.0.1:8484/flows"
    settings.web.base_url = "https://flows.example/"

    with using(AuthoringDefaults.of(settings)):
        assert conf.get("webserver", "BASE_URL") == conf.get("api", "base_url") == "https://flows.example"
        assert conf.as_dict()["api"]["base_url"] == "https://flows.example"


def test_a_file_in_an_archive_is_its_archive(tmp_path: Path) -> None:
    archive = tmp_path / "dags.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("one.py", "")

    assert functions.correct_maybe_zipped(f"{archive}/one.py") == str(archive)
    assert functions.correct_maybe_zipped(f"{tmp_path}/one.py") == f"{tmp_path}/one.py"
    assert functions.correct_maybe_zipped(None) is None


def test_the_module_name_of_a_file_is_one_that_python_takes() -> None:
    names = [functions.get_unique_dag_module_name(path) for path in ("/dags/a-b.c.py", "/more/a-b.c.py")]

    assert all(name.isidentifier() and name.endswith("_a_b_c") for name in names)
    assert names[0] != names[1]


def test_a_folder_for_a_dag_bag_may_begin_with_the_dags_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", "/srv/dags")

    assert functions.process_subdir("DAGS_FOLDER/team") == "/srv/dags/team"
    assert functions.process_subdir("team") == str(Path("team").absolute())
    assert functions.process_subdir(None) is None


def test_a_test_changes_settings_of_its_own_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow import configuration  # type: ignore[import-not-found]

    (own := tmp_path / "airflow.cfg").write_text("[core]\ndags_folder = /srv/other\n")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    assert str(own) == configuration.AIRFLOW_CONFIG
    parser = configuration.AirflowConfigParser()

    configuration.load_standard_airflow_configuration(parser)
    parser.validate()
    parser.set("Core", "parallelism", "3")

    assert (parser.get("core", "dags_folder"), parser.getint("core", "parallelism")) == ("/srv/other", 3)
    assert parser.as_dict()["core"]["parallelism"] == "3"
    assert conf.get("core", "dags_folder") != "/srv/other"


@pytest.mark.usefixtures("production")
def test_a_file_of_the_team_adds_options_and_changes_none(tmp_path: Path) -> None:
    (own := tmp_path / "app.cfg").write_text("[Acme]\nurl = http://50%\n[core]\nexecutor = Other\n")
    conf = Configuration()
    before = conf.get("core", "executor")

    assert conf.read([own, tmp_path / "missing.cfg"]) == [str(own)]

    assert conf.get("acme", "URL") == "http://50%"
    assert conf.has_section("acme")
    assert conf.get("core", "executor") == before
