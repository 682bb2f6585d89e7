"""Where settings come from, and what is said about wrong ones."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import aiosched
from aiosched.config import FLAGS, Loaded, SettingField, Settings, hide_password, load_settings, setting_fields
from aiosched.config.secrecy import Secrecy, secrecy_of
from aiosched.errors import ConfigError


def load(
    folder: Path, *, flags: dict[str, Any] | None = None, env: dict[str, str] | None = None, file: str = ""
) -> Loaded:
    if file:
        (folder / "aiosched.toml").write_text(file)
    return load_settings(flags, environ=env or {}, folder=folder)


def test_without_any_source_every_value_is_its_default(tmp_path: Path) -> None:
    loaded = load(tmp_path)

    assert loaded.settings == Settings()
    assert {str(origin) for origin in loaded.origins.values()} == {"default"}
    assert set(loaded.origins) == {field.key for field in setting_fields()}


def test_every_setting_that_a_command_takes_as_an_option_is_named_by_it() -> None:
    """`load(core__home=home, …)` in the command line; an error in the value says `from --home`."""
    calls = (
        node
        for path in (Path(aiosched.__file__).parent / "cli").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("load")
    )
    keys = {word.arg.replace("__", ".") for call in calls for word in call.keywords if word.arg and "__" in word.arg}

    assert len(keys) > 5
    assert keys == FLAGS.keys()


FILE = "[core]\nparallelism = 3\n"
ENV = {"AIOSCHED__CORE__PARALLELISM": "5"}
FLAG = {"core.parallelism": 7}


@pytest.mark.parametrize(
    ("file", "env", "flags", "value", "origin"),
    [
        ("", {}, {}, 32, "default"),
        (FILE, {}, {}, 3, "aiosched.toml"),
        (FILE, ENV, {}, 5, "AIOSCHED__CORE__PARALLELISM"),
        ("", ENV, {}, 5, "AIOSCHED__CORE__PARALLELISM"),
        (FILE, ENV, FLAG, 7, "--parallelism"),
        (FILE, {}, FLAG, 7, "--parallelism"),
        (FILE, ENV, {"core.parallelism": None}, 5, "AIOSCHED__CORE__PARALLELISM"),
        (FILE, {"AIOSCHED__CORE__PARALLELISM": ""}, {}, 3, "aiosched.toml"),
    ],
)
def test_flag_wins_over_environment_over_file_over_default(
    tmp_path: Path, file: str, env: dict[str, str], flags: dict[str, Any], value: int, origin: str
) -> None:
    loaded = load(tmp_path, file=file, env=env, flags=flags)

    assert loaded.settings.core.parallelism == value
    assert str(loaded.origins["core.parallelism"]) == origin


@pytest.mark.parametrize(
    ("env", "key", "value"),
    [
        ({"AIOSCHED_DSN": "postgresql://db/a"}, "database.dsn", "postgresql://db/a"),
        ({"AIOSCHED_HOME": "/var/aiosched"}, "core.home", Path("/var/aiosched")),
        ({"AIOSCHED_DAGS": "/dags"}, "core.dags_folder", Path("/dags")),
        ({"AIRFLOW__CORE__DAGS_FOLDER": "/theirs"}, "core.dags_folder", Path("/theirs")),
        ({"AIOSCHED_DAGS": "/ours", "AIRFLOW__CORE__DAGS_FOLDER": "/theirs"}, "core.dags_folder", Path("/ours")),
        ({"AIOSCHED__CORE__DAGS_FOLDER": "/dags"}, "core.dags_folder", Path("/dags")),
        ({"AIOSCHED__CORE__DAGS_ARE_PAUSED_AT_CREATION": "true"}, "core.dags_are_paused_at_creation", True),
        ({"AIOSCHED__LOGS__LEVEL": "debug"}, "logs.level", "DEBUG"),
        ({"AIOSCHED__EXECUTOR__SLOTS": "4"}, "executor.slots", 4),
        ({"AIOSCHED__SCHEDULER__LEASE": "2.5"}, "scheduler.lease", 2.5),
    ],
)
def test_the_environment_has_long_and_short_names(tmp_path: Path, env: dict[str, str], key: str, value: Any) -> None:
    loaded = load(tmp_path, env=env)

    section, name = key.split(".")
    assert getattr(getattr(loaded.settings, section), name) == value
    assert str(loaded.origins[key]) == next(iter(env))


@pytest.mark.parametrize("variable", ["AIOSCHED_DSN__FILE", "AIOSCHED__DATABASE__DSN__FILE"])
def test_a_variable_with_the_suffix_file_names_a_file_that_holds_the_value(tmp_path: Path, variable: str) -> None:
    secret = tmp_path / "dsn"
    secret.write_text("postgresql://user:secret@db/prod\n")

    loaded = load(tmp_path, env={variable: str(secret)})

    assert loaded.settings.database.dsn == "postgresql://user:secret@db/prod"
    assert str(loaded.origins["database.dsn"]) == variable


def test_settings_may_stand_in_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n[tool.aiosched.web]\nport = 9000\n")

    loaded = load(tmp_path)

    assert loaded.settings.web.port == 9000
    assert str(loaded.origins["web.port"]) == "pyproject.toml"


def test_a_pyproject_of_another_tool_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.other]\nport = 9000\n")

    assert load(tmp_path, file=FILE).settings.core.parallelism == 3


@pytest.mark.parametrize(
    ("file", "env", "flags", "message"),
    [
        (
            "[core]\nparalelism = 3",
            {},
            {},
            "aiosched.toml sets core.paralelism, which does not exist. Did you mean core.parallelism?",
        ),
        ("[cor]\nparallelism = 3", {}, {}, "aiosched.toml has an unknown section [cor]. Did you mean core?"),
        ("core = 3", {}, {}, "aiosched.toml: core is a section: write [core], and its settings below."),
        ("[core", {}, {}, "aiosched.toml is not valid TOML: "),
        (
            "",
            {"AIOSCHED__CORE__PARALELISM": "3"},
            {},
            "sets AIOSCHED__CORE__PARALELISM, which does not exist. Did you mean AIOSCHED__CORE__PARALLELISM?",
        ),
        ("", {"AIOSCHED_CORE__PARALLELISM": "x"}, {}, "Did you mean AIOSCHED__CORE__PARALLELISM?"),
        ("", {"AIOSCHED_PARALLELISM": "x"}, {}, "Did you mean AIOSCHED__CORE__PARALLELISM?"),
        ("", {"AIOSCHED_DAGS_FOLDER": "x"}, {}, "Did you mean AIOSCHED_DAGS?"),
        ("", {"AIOSCHED_DSN_FILE": "x"}, {}, "Did you mean AIOSCHED_DSN?"),
        (
            "",
            {"AIOSCHED_DAG": "x"},
            {},
            "The environment sets AIOSCHED_DAG, which does not exist. Did you mean AIOSCHED_DAGS?",
        ),
        (
            "",
            {"AIOSCHED_DSN": "a", "AIOSCHED__DATABASE__DSN": "b"},
            {},
            "AIOSCHED_DSN and AIOSCHED__DATABASE__DSN both set database.dsn. Keep one of them.",
        ),
        (
            "",
            {"AIOSCHED_DSN": "a", "AIOSCHED_DSN__FILE": "b"},
            {},
            "AIOSCHED_DSN and AIOSCHED_DSN__FILE both set database.dsn. Keep one of them.",
        ),
        (
            "",
            {"AIOSCHED_DSN__FILE": "/nowhere"},
            {},
            "AIOSCHED_DSN__FILE names the file /nowhere, which cannot be read: No such file or directory.",
        ),
        (
            "[core]\nparallelism = 0",
            {},
            {},
            "core.parallelism = 0 (from aiosched.toml): input should be greater than or equal to 1",
        ),
        (
            "",
            {"AIOSCHED__CORE__PARALLELISM": "many"},
            {},
            "core.parallelism = many (from AIOSCHED__CORE__PARALLELISM): input should be a valid integer",
        ),
        (
            "",
            {},
            {"executor.kind": "mesos"},
            (
                "executor.kind = mesos (from --executor): 'mesos' is not an executor that is installed here: "
                "these are local, inline"
            ),
        ),
        (
            "",
            {},
            {"scheduler.processes": "abc"},
            "scheduler.processes = abc (from --schedulers): ",
        ),
        (
            "[core]\ndefault_timezone = 'Mars/Base'",
            {},
            {},
            "core.default_timezone = Mars/Base (from aiosched.toml): must be a time zone of the IANA database",
        ),
        (
            "[scheduler]\nallowed_run_id_pattern = '('",
            {},
            {},
            "scheduler.allowed_run_id_pattern = ( (from aiosched.toml): must be a regular expression",
        ),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key_its_origin_and_the_remedy(
    tmp_path: Path, file: str, env: dict[str, str], flags: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, file=file, env=env, flags=flags)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_settings_in_two_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.aiosched.web]\nport = 9000\n")

    with pytest.raises(ConfigError, match=r"Keep them in one file\."):
        load(tmp_path, file=FILE)


@pytest.mark.parametrize(
    "variable",
    [
        "AIOSCHED_SERVICE_HOST",
        "AIOSCHED_PORT",
        "AIOSCHED_PORT_8484_TCP_ADDR",
        "AIOSCHED_HOME_SERVICE_HOST",
        "AIOSCHED_TEST_SERVER",
        "_AIOSCHED_COMPLETE",
    ],
)
def test_variables_that_others_set_with_our_prefix_are_left_alone(tmp_path: Path, variable: str) -> None:
    assert load(tmp_path, env={variable: "10.0.0.1"}).settings == Settings()


SOUNDS_SECRET = re.compile(r"passw|secret|token|key|credential|dsn|broker|remote|options|auth|login|url|uri|private")


@pytest.mark.parametrize("field", [f for f in setting_fields() if SOUNDS_SECRET.search(f.key)], ids=lambda f: f.key)
def test_what_sounds_secret_is_secret_by_its_type_or_has_a_reason(field: SettingField) -> None:
    public = {
        "database.password_file": "the name of a file",
        "scheduler.partition_mapper_max_downstream_keys": "a number",
        "secrets.cache_seconds": "a number",
        "secrets.timeout": "a number",
        "web.auth": "a way to log in",
        "web.base_url": "an address without a login",
        "web.loopback_login": "a way to log in",
        "web.max_token_days": "a number",
        "web.oidc_token_days": "a number",
        "xcom.remote_from": "a size",
        "xcom.max_remote_bytes": "a size",
    }

    assert (secrecy_of(field.info) is None) == (field.key in public)


def test_no_secret_setting_is_shown(tmp_path: Path) -> None:
    key = "the-secret".ljust(43, "A") + "="  # looks like one
    secret = {"database.dsn": "postgresql://u:the-secret@db/x"}
    for field in setting_fields():
        match secrecy_of(field.info):
            case Secrecy.ADDRESS:
                secret[field.key] = "redis://u:the-secret@h/0"
            case Secrecy.WHOLE:
                secret[field.key] = f'{{"a": "{key}"}}'
    secret |= {"secrets.fernet_keys": key, "celery.keys": key}

    loaded = load_settings(secret, environ={}, folder=tmp_path)

    assert "the-secret" in str(loaded.settings.model_dump())
    assert "the-secret" not in str(loaded.values())
    assert "web.oidc_client_secret" in secret


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://user:secret@db:5432/prod", "postgresql://user:***@db:5432/prod"),
        ("postgresql://user:s/e@c@db/prod", "postgresql://user:***@db/prod"),
        ("postgresql://user@db/prod", "postgresql://user@db/prod"),
        (
            "postgresql://db/prod?user=a&password=secret&sslmode=require",
            "postgresql://db/prod?user=a&password=***&sslmode=require",
        ),
        ("host=db password='a b' user=x", "host=db password=*** user=x"),
        ("postgresql:///prod?host=/run/pg", "postgresql:///prod?host=/run/pg"),
    ],
)
def test_the_password_of_an_address_is_never_shown(dsn: str, shown: str) -> None:
    assert hide_password(dsn) == shown


def test_listed_values_hide_the_password_and_an_error_about_them_too(tmp_path: Path) -> None:
    loaded = load(tmp_path, env={"AIOSCHED_DSN": "postgresql://u:secret@db/x"})

    assert loaded.values()["database.dsn"] == "postgresql://u:***@db/x"


def test_every_setting_says_what_it_means() -> None:
    assert [field.key for field in setting_fields() if not field.info.description] == []


def test_a_file_with_every_default_is_read_back(tmp_path: Path) -> None:
    defaults = {f.key: getattr(getattr(Settings(), f.section), f.name) for f in setting_fields()}
    lines: dict[str, list[str]] = {}
    for key, value in defaults.items():
        section, name = key.split(".")
        if value is not None:
            text = (
                str(value).lower()
                if isinstance(value, bool)
                else repr(str(value) if isinstance(value, Path) else value)
            )
            lines.setdefault(section, []).append(f"{name} = {text}")
    file = "\n".join(f"[{section}]\n" + "\n".join(rows) for section, rows in lines.items())
    assert tomllib.loads(file)

    assert load(tmp_path, file=file).settings == Settings()


# ---- remote storage ----


@pytest.mark.parametrize("section", ["logs", "xcom"])
def test_options_of_a_store_are_a_table_or_json_and_are_never_shown(tmp_path: Path, section: str) -> None:
    table = f"[{section}]\nremote = 's3://me:word@bucket/x'\nremote_options = {{ key = 'AKIA1', secret = 'sesame' }}"
    variable = {f"AIOSCHED__{section.upper()}__REMOTE_OPTIONS": '{"secret": "sesame"}'}

    for loaded in (load(tmp_path, file=table), load(tmp_path / "empty", env=variable)):
        options = getattr(loaded.settings, section).remote_options
        assert json.loads(options)["secret"] == "sesame"
        assert loaded.values()[f"{section}.remote_options"] == "***"
        assert "sesame" not in str(loaded.values())
    assert load(tmp_path, file=table).values()[f"{section}.remote"] == "s3://me:***@bucket/x"


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("[logs]\nremote = 'bucket/x'", "logs.remote = bucket/x (from aiosched.toml): must be the URL of a folder"),
        ("[xcom]\nremote = 's3://'", "xcom.remote = s3:// (from aiosched.toml): must be the URL of a folder"),
        ("[logs]\nremote_options = 'secret'", "logs.remote_options = *** (from aiosched.toml): must be a JSON object"),
        ("[xcom]\nremote_options = ['secret']", "xcom.remote_options = *** (from aiosched.toml): "),
        ("[xcom]\nremote_from = 0", "xcom.remote_from = 0 (from aiosched.toml): "),
        (
            "[xcom]\nremotefrom = 1",
            "aiosched.toml sets xcom.remotefrom, which does not exist. Did you mean xcom.remote_",
        ),
    ],
)
def test_wrong_settings_of_a_store_are_named_without_secrets(tmp_path: Path, file: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, file=file)

    assert str(caught.value).startswith(message)
    assert "secret" not in str(caught.value)


BUNDLES = '[{"name": "team", "kind": "git", "url": "https://git.example.com/a.git"}]'


def test_bundles_come_from_the_file_or_as_json_from_the_environment(tmp_path: Path) -> None:
    table = "[[dags.bundles]]\nname = 'team'\nkind = 'git'\nurl = 'https://git.example.com/a.git'\n"

    found = [load(tmp_path, file=table), load(tmp_path, file="", env={"AIOSCHED__DAGS__BUNDLES": BUNDLES})]

    for loaded in found:
        (bundle,) = loaded.settings.dags.bundles
        assert (bundle.name, bundle.kind, bundle.ref, bundle.interval) == ("team", "git", "HEAD", 60.0)
        assert loaded.values()["dags.bundles"] == [
            {"name": "team", "kind": "git", "url": "https://git.example.com/a.git"}
        ]


def test_a_folder_given_as_a_flag_is_used_instead_of_the_bundles(tmp_path: Path) -> None:
    env = {"AIOSCHED__DAGS__BUNDLES": BUNDLES}

    loaded = load(tmp_path, env=env, flags={"core.dags_folder": Path("here")})

    assert loaded.settings.dags.bundles == []


@pytest.mark.parametrize(
    ("bundles", "message"),
    [
        ("no json", "must be a JSON list such as"),
        ('[{"name": "a", "kind": "git"}]', "the bundle 'a' needs url"),
        ('[{"name": "a", "kind": "folder", "path": "x", "ref": "y"}]', "the bundle 'a' of the kind folder has no ref"),
        ('[{"name": "a", "kind": "git", "url": "ext::sh -c x"}]', "the bundle 'a' needs a url such as"),
        ('[{"name": "a", "kind": "git", "url": "--upload-pack=x"}]', "the bundle 'a' needs a url such as"),
        ('[{"name": "a", "kind": "git", "url": "https://u:s3cret@h/a"}]', "has a password in its url"),
        ('[{"name": "a", "kind": "git", "url": "https://h/a", "subfolder": "../x"}]', "needs a subfolder such as"),
        (
            '[{"name": "a", "kind": "folder", "path": "x"}, {"name": "a", "kind": "folder", "path": "y"}]',
            "two bundles have the name 'a'",
        ),
    ],
)
def test_a_wrong_bundle_is_an_error_without_passwords(tmp_path: Path, bundles: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, env={"AIOSCHED__DAGS__BUNDLES": bundles})

    assert message in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "file",
    [
        "[[dags.bundles]]\nname = 'team'\nkind = 'git'\nurl = 'https://git.example.com/a.git'",
        "[[dags.bundles]]\nname = 'release'\nkind = 'archive'\nurl = 'https://files.example.com/a.zip'\ninterval = 5",
        "[[dags.bundles]]\nname = 'here'\nkind = 'folder'\npath = 'dags'",
        (
            "[[alerts.notifiers]]\nname = 'ops'\nkind = 'webhook'\nurl = 'https://chat.example.com/x'\n"
            "[[alerts.rules]]\nname = 'late'\nkind = 'run_late'\nnotifier = 'ops'\nseconds = 60"
        ),
        "[[secrets.backends]]\nkind = 'files'\nfolder = '/run/secrets'",
        (
            "[secrets]\nfernet_keys = 'cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4='\n[logs]\nremote = 's3://me:word@bucket/x'\n"
            "remote_options = { key = 'AKIA1', secret = 'sesame' }"
        ),
        "[database]\ndsn = 'postgresql://me:word@db/x'",
    ],
)
def test_what_is_sent_to_child_processes_is_what_was_read(tmp_path: Path, file: str) -> None:
    settings = load(tmp_path, file=file).settings

    sent = json.dumps(settings.model_dump(mode="json"))

    assert settings != Settings()
    assert Settings.model_validate(json.loads(sent)) == settings
