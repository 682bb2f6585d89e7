"""`variables`, `connections` and the keys that encrypt them."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from aiosched.db.crypto.keyring import new_key
from tests.cli.conftest import Cli

URI = "postgres://user:hunter2@db:5432/sales?api_key=sk-123&mode=x"


@pytest.fixture
def secret(on_db: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line on a database with a key."""
    monkeypatch.setenv("AIOSCHED__SECRETS__FERNET_KEYS", new_key())
    return on_db


# ---- variables ----


def test_a_variable_is_set_shown_listed_and_deleted(secret: Cli) -> None:
    made = secret("variables", "set", "region", "eu-west-1", "--description", "where")
    same = secret("variable", "set", "region", "eu-west-1")
    changed = secret("variables", "set", "region", "us-east-1")

    assert [one.stderr for one in (made, same, changed)] == [
        "created variable region\n", "unchanged variable region\n", "changed variable region\n",
    ]  # fmt: skip
    assert secret("variables", "get", "region").stdout == "us-east-1\n"
    assert secret.json("variables", "get", "region") == {"key": "region", "value": "us-east-1", "description": "where"}
    assert secret.lines("variables", "list")[0][:2] == ["region", "where"]
    assert secret("variables", "delete", "region", "-y").stderr == "deleted variable region\n"
    assert "no variable 'region'" in secret("variables", "get", "region", code=3).stderr
    assert secret("variables", "get", "region", "--default", "eu").stdout == "eu\n"


def test_new_names_that_no_address_could_have_are_refused(secret: Cli) -> None:
    for words in (("variables", "set", "..", "x"), ("connections", "add", "..", "--type", "http")):
        assert "is a step in a path, so no address could name it: choose another" in secret(*words, code=4).stderr


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("api_key", "sk-live-1", "***"),
        ("config", '{"host": "h", "login": {"password": "hunter2"}}', '{"host": "h", "login": {"password": "***"}}'),
        ("tokens", '["a", "b"]', "***"),
    ],
)
def test_a_secret_variable_is_shown_only_on_request(secret: Cli, key: str, value: str, shown: str) -> None:
    secret("variables", "set", key, value)

    hidden = secret("variables", "get", key)

    assert (hidden.stdout, hidden.stderr) == (f"{shown}\n", f"{key} holds a secret: add --reveal to see it\n")
    assert secret.json("variables", "get", key)["value"] == shown
    assert secret("variables", "get", key, "--reveal").stdout == f"{value}\n"
    assert value not in secret("variables", "list", "-o", "json").stdout


def test_a_value_comes_from_the_standard_input_and_is_json_where_that_is_asked_for(secret: Cli) -> None:
    secret("variables", "set", "limits", "-", "--json", input='{"cpu": 2}\n')
    wrong = secret("variables", "set", "limits", "{cpu", "-j", code=2)

    assert secret("variables", "get", "limits").stdout == '{"cpu": 2}\n'
    assert "the value of limits is not valid JSON" in wrong.stderr


def test_variables_travel_in_a_file(secret: Cli, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"a": "text", "b": {"cpu": 2}, "c": {"value": "x", "description": "of c"}}')

    imported = secret("variables", "import", "in.json")
    secret("variables", "export", "out.json")

    assert imported.stderr == "imported 3 variables: 3 created\n"
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "a": "text", "b": {"cpu": 2}, "c": {"value": "x", "description": "of c"},
    }  # fmt: skip
    assert secret("variables", "import", "out.json").stderr == "imported 3 variables: 3 unchanged\n"


@pytest.mark.parametrize(("how", "code", "value"), [("overwrite", 0, "new"), ("skip", 0, "old"), ("fail", 4, "old")])
def test_an_import_says_what_happens_to_those_that_exist(
    secret: Cli, tmp_path: Path, how: str, code: int, value: str
) -> None:
    secret("variables", "set", "a", "old")
    (tmp_path / "in.json").write_text('{"a": "new", "b": "new"}')

    secret("variables", "import", "in.json", "--existing", how, code=code)
    secret("variables", "import", "in.json", "--action-on-existing-key", how, code=code)

    assert secret("variables", "get", "a").stdout == f"{value}\n"
    secret("variables", "get", "b", code=3 if code else 0)


def test_variables_come_from_yaml_and_from_lines(secret: Cli, tmp_path: Path) -> None:
    (tmp_path / "in.yaml").write_text("region: eu\nlimits: {a: 1}\n")
    (tmp_path / "in.env").write_text("# a comment\n\nLEVEL=info\nEQUATION=a=b\n")

    secret("variables", "import", "in.yaml")
    secret("variables", "import", "in.env")

    assert [secret("variables", "get", key).stdout for key in ("region", "limits", "LEVEL", "EQUATION")] == [
        "eu\n", '{"a": 1}\n', "info\n", "a=b\n",
    ]  # fmt: skip


@pytest.mark.parametrize("ending", ["json", "yaml", "env"])
def test_what_is_exported_can_be_imported_again(secret: Cli, tmp_path: Path, ending: str) -> None:
    secret("variables", "set", "limits", '{"a": 1}')
    secret("variables", "set", "compact", '{"a":1}')
    secret("connections", "add", "db", "--uri", URI)
    secret("variables", "export", f"v.{ending}")
    secret("connections", "export", f"c.{ending}", "--reveal")

    assert secret("variables", "import", f"v.{ending}").stderr == "imported 2 variables: 2 unchanged\n"
    assert secret("connections", "import", f"c.{ending}").stderr == "imported 1 connection: 1 unchanged\n"
    assert json.loads(secret("variables", "export", "-").stdout)["limits"] == {"a": 1}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("in.env", "no equals sign", "in.env, line 1: write it as NAME=value"),
        ("in.env", "a=1\na=2", "in.env, line 2: a stands there twice"),
        ("in.yaml", "a: [", "in.yaml is not valid YAML"),
        ("in.yaml", "a: 2026-01-01", "in.yaml has a value that JSON does not have"),
        ("in.yml", "- a", "in.yml must hold an object"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(secret: Cli, tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)

    assert said in secret("variables", "import", name, code=2).stderr


def test_a_value_of_several_lines_does_not_go_into_lines(secret: Cli, tmp_path: Path) -> None:
    secret("variables", "set", "text", "a\nb")

    assert "The value of text has several lines" in secret("variables", "export", "out.env", code=4).stderr
    assert not (tmp_path / "out.env").exists()


def test_an_export_replaces_a_file_on_request(secret: Cli, tmp_path: Path) -> None:
    secret("variables", "set", "region", "eu")
    (tmp_path / "out.json").write_text("a longer text than what comes after it, which must go")
    (tmp_path / "out.json").chmod(0o644)

    secret("variables", "export", "out.json", "--overwrite")

    assert json.loads((tmp_path / "out.json").read_text()) == {"region": "eu"}
    assert stat.S_IMODE((tmp_path / "out.json").stat().st_mode) == 0o600


def test_an_export_with_secrets_needs_a_word_and_is_for_its_owner_alone(secret: Cli, tmp_path: Path) -> None:
    secret("variables", "set", "api_key", "sk-live-1")

    refused = secret("variables", "export", "out.json", code=4)
    secret("variables", "export", "out.json", "--reveal")

    assert "secrets in clear text (api_key). Add --reveal" in refused.stderr
    assert json.loads((tmp_path / "out.json").read_text()) == {"api_key": "sk-live-1"}
    assert stat.S_IMODE((tmp_path / "out.json").stat().st_mode) == 0o600
    assert "out.json exists" in secret("variables", "export", "out.json", "--reveal", code=4).stderr
    assert json.loads(secret("variables", "export", "-", "--reveal").stdout) == {"api_key": "sk-live-1"}


@pytest.mark.parametrize("content", [None, "[1]", "{broken"])
def test_a_file_that_is_none_is_wrong_usage(secret: Cli, tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "in.json").write_text(content)

    assert "in.json" in secret("variables", "import", "in.json", code=2).stderr


# ---- connections ----


@pytest.mark.parametrize(
    "words",
    [
        ("--uri", URI),
        ("--conn-uri", URI),
        ("--json", '{"uri": "postgres://user:hunter2@db:5432/sales?api_key=sk-123&mode=x"}'),
        ("--type", "postgresql", "--host", "db", "--port", "5432", "--schema", "sales", "--login", "user",
         "--password", "hunter2", "--extra", '{"api_key": "sk-123", "mode": "x"}'),
        ("--conn-type", "postgres", "--conn-host", "db", "--conn-port", "5432", "--conn-schema", "sales",
         "--conn-login", "user", "--conn-password", "hunter2", "--conn-extra", '{"api_key": "sk-123", "mode": "x"}'),
    ],
)  # fmt: skip
def test_a_connection_is_added_in_any_form_and_shown_without_its_secrets(secret: Cli, words: tuple[str, ...]) -> None:
    secret("connections", "add", "sales", *words, "--description", "the shop")

    hidden, shown = secret.json("connections", "get", "sales"), secret.json("connections", "get", "sales", "--reveal")

    public = {"conn_id": "sales", "conn_type": "postgres", "host": "db", "login": "user", "port": 5432,
              "schema": "sales", "description": "the shop"}  # fmt: skip
    assert hidden == {**public, "password": "***", "extra": {"api_key": "***", "mode": "x"}}
    assert shown == {**public, "password": "hunter2", "extra": {"api_key": "sk-123", "mode": "x"}}
    assert secret.lines("connections", "list")[0][:3] == ["sales", "postgres", "the shop"]


def test_add_makes_new_ones_and_set_changes_fields(secret: Cli) -> None:
    secret("connections", "add", "sales", "--uri", URI)

    refused = secret("connections", "add", "sales", "--uri", URI, code=4)
    changed = secret("connection", "set", "sales", "--host", "other", "--password", "-", input="brandnew\n")
    same = secret("connections", "set", "sales", "--host", "other")
    made = secret("connections", "set", "new", "--type", "http", "--host", "h")

    assert "'sales' exists already" in refused.stderr
    assert [one.stderr for one in (changed, same, made)] == [
        "changed connection sales\n", "unchanged connection sales\n", "created connection new\n",
    ]  # fmt: skip
    sales = secret.json("connections", "get", "sales", "--reveal")
    assert (sales["host"], sales["password"], sales["login"]) == ("other", "brandnew", "user")


def test_json_replaces_all_fields_of_a_connection_and_leaves_the_password_out_of_the_command_line(secret: Cli) -> None:
    secret("connections", "add", "sales", "--uri", URI)

    secret("connections", "set", "sales", "--json", '{"conn_type": "http"}', "--password", "-", input="brandnew\n")

    sales = secret.json("connections", "get", "sales", "--reveal")
    assert {name: value for name, value in sales.items() if value} == {
        "conn_id": "sales", "conn_type": "http", "password": "brandnew",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "in one way"),
        (("--uri", URI, "--host", "h"), "in one way"),
        (("--host", "h"), "Name the type"),
        (("--uri", "nothing"), "does not begin with a type"),
        (("--json", "[1]"), "--json must be a JSON object"),
        (("--type", "x", "--extra", "[1]"), "extra must be text"),
        (("--type", "x", "--extra", "{"), "--extra is not valid JSON"),
    ],
)
def test_a_connection_that_is_badly_described_is_refused(secret: Cli, words: tuple[str, ...], complaint: str) -> None:
    assert complaint in secret("connections", "add", "sales", *words, code=2).stderr


def test_connections_travel_in_a_file(secret: Cli, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text(
        json.dumps({"sales": URI, "web": {"conn_type": "http", "host": "h", "extra": {"a": 1}}})
    )

    secret("connections", "import", "in.json")
    refused = secret("connections", "export", "out.json", code=4)
    secret("connections", "export", "out.json", "--reveal")

    assert "(sales)" in refused.stderr
    exported = json.loads((tmp_path / "out.json").read_text())
    assert exported["web"] == {"conn_type": "http", "host": "h", "extra": {"a": 1}}
    assert exported["sales"]["password"] == "hunter2"
    assert secret("connections", "import", "out.json").stderr == "imported 2 connections: 2 unchanged\n"


def test_a_connection_is_deleted_after_a_yes(secret: Cli) -> None:
    secret("connections", "add", "sales", "--uri", URI)

    assert "Add --yes" in secret("connections", "delete", "sales", code=2).stderr
    secret("connections", "delete", "sales", "--yes")

    assert "Did you mean" not in secret("connections", "get", "sales", code=3).stderr


def test_a_postgres_connection_is_tested_by_logging_in(secret: Cli) -> None:
    facts = asyncio.run(_facts(str(secret.dsn)))
    secret("connections", "add", "here", "--type", "postgres", *facts)
    secret("connections", "add", "nowhere", "--uri", "http://127.0.0.1:1")
    secret("connections", "add", "vague", "--uri", "aws://")

    assert "ok: logged in to PostgreSQL" in secret("connections", "test", "here").stderr
    assert "'nowhere' does not work: 127.0.0.1:1" in secret("connections", "test", "nowhere", code=1).stderr
    assert "names no host and port" in secret("connections", "test", "vague", code=4).stderr


async def _facts(dsn: str) -> list[str]:
    conn = await asyncpg.connect(dsn)
    folder, port, database, user = await conn.fetchrow(
        "SELECT current_setting('unix_socket_directories'), current_setting('port'), current_database(), current_user"
    )
    await conn.close()
    return ["--host", folder, "--port", port, "--schema", database, "--login", user]


# ---- keys ----


def test_without_a_key_a_secret_is_refused_with_the_remedy(on_db: Cli) -> None:
    refused = on_db("variables", "set", "a", "1", code=4)

    assert "secrets.fernet_keys is not set" in refused.stderr
    assert "aiosched db make-key" in refused.stderr
    assert "no variables" in on_db("variables", "list").stderr


def test_keys_are_made_and_rotated(on_db: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (on_db("db", "make-key").stdout.strip() for _ in range(2))
    monkeypatch.setenv("AIOSCHED__SECRETS__FERNET_KEYS", old)
    on_db("variables", "set", "a", "1")
    on_db("connections", "add", "sales", "--uri", URI)
    monkeypatch.setenv("AIOSCHED__SECRETS__FERNET_KEYS", f"{new},{old}")

    done = on_db("db", "rotate-keys")
    again = on_db("rotate-fernet-key")

    assert done.stderr == again.stderr == "encrypted 2 secrets again with the newest key\n"
    monkeypatch.setenv("AIOSCHED__SECRETS__FERNET_KEYS", new)
    assert on_db("variables", "get", "a").stdout == "1\n"


def test_the_keys_are_never_shown_with_the_settings(secret: Cli) -> None:
    rows: list[dict[str, Any]] = secret.json("config", "list")

    assert [row["value"] for row in rows if row["key"] == "secrets.fernet_keys"] == ["***"]


def test_the_environment_of_dags_is_no_unknown_setting(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOSCHED_VAR_CORE__PARALLELISM", "1")
    monkeypatch.setenv("AIOSCHED_CONN_DSN", "postgres://db")

    cli("config", "get", "core.parallelism")


@pytest.mark.slow
def test_the_embedded_database_has_its_own_key(short_path: Path) -> None:
    cli = Cli(home=short_path)
    cli("db", "migrate")

    cli("variables", "set", "a", "1")
    rotated = cli("db", "rotate-keys")

    assert rotated.stderr == "encrypted 1 secret again with the newest key\n"
    assert cli("variables", "get", "a").stdout == "1\n"
    assert len((short_path / "fernet.key").read_text().split()) == 2
