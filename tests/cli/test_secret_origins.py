"""Where variables and connections come from, as lists say it, teams on the command line, and what doctor checks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiosched.backends.sources import Names, SecretOrigin, names_in_environment, origins_of
from aiosched.db.crypto.keyring import new_key
from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli


@pytest.fixture
def secret(on_db: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """The command line on a database with a key, and with a backend of files."""
    for folder in ("v", "c"):
        (tmp_path / folder).mkdir()
    table = {"kind": "files", "variables": str(tmp_path / "v"), "connections": str(tmp_path / "c")}
    monkeypatch.setenv("AIOSCHED__SECRETS__FERNET_KEYS", new_key())
    monkeypatch.setenv("AIOSCHED__SECRETS__TIMEOUT", "60")  # of a busy machine that imports a library first
    monkeypatch.setenv("AIOSCHED__SECRETS__BACKENDS", json.dumps([table]))
    return on_db


def test_lists_say_where_each_comes_from_and_what_hides_it(
    secret: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "v" / "region").write_text("eu")
    (tmp_path / "c" / "shop").write_text("http://h")
    monkeypatch.setenv("AIOSCHED_VAR_SIZE", "3")
    monkeypatch.setenv("AIOSCHED_VAR_REGION", "us")
    for name in ("region", "size", "only_here"):
        secret("variables", "set", name, "stored")
    secret("connections", "add", "shop", "--uri", "http://other")

    variables = {(one["key"], one["source"]): one["hidden_by"] for one in secret.json("variables", "list")}
    connections = {(one["conn_id"], one["source"]): one["hidden_by"] for one in secret.json("connections", "list")}

    assert variables == {
        ("only_here", "database"): None,
        ("region", "files"): None,
        ("region", "environment"): "files",
        ("region", "database"): "files",
        ("size", "environment"): None,
        ("size", "database"): "environment",
    }
    assert connections == {("shop", "files"): None, ("shop", "database"): "files"}


def test_the_upper_case_of_an_environment_variable_hides_all_spellings() -> None:
    environment = names_in_environment("variable", ["AIOSCHED_VAR_REGION", "AIRFLOW_VAR_X", "OTHER"])

    found = origins_of([environment, Names("database", {"Region", "y"})])

    assert found == [
        SecretOrigin("Region", "database", "environment"),
        SecretOrigin("region", "environment"),
        SecretOrigin("x", "environment"),
        SecretOrigin("y", "database"),
    ]


async def add_alpha(db: Database) -> None:
    await db.execute("INSERT INTO team (name) VALUES ('alpha')")


def test_what_belongs_to_a_team_is_set_and_listed(secret: Cli) -> None:
    secret.work(add_alpha)
    secret("variables", "set", "region", "eu", "--team", "alpha")
    secret("connections", "add", "shop", "--uri", "http://h", "--team", "alpha")
    secret("pools", "set", "etl", "4", "--team", "alpha")

    kept = secret("variables", "set", "region", "us")
    owners = [
        secret.json("variables", "list")[0]["team"],
        secret.json("connections", "list")[0]["team"],
        next(pool["team"] for pool in secret.json("pools", "list") if pool["name"] == "etl"),
        secret.json("pools", "set", "etl", "5")["after"]["team"],
    ]
    freed = secret("variables", "set", "region", "us", "--team", "")

    assert kept.stderr == freed.stderr == "changed variable region\n"
    assert owners == ["alpha"] * 4
    assert secret.json("variables", "list")[0]["team"] is None


def test_a_team_that_does_not_exist_is_refused(secret: Cli) -> None:
    for command in (
        ["variables", "set", "x", "1"],
        ["connections", "add", "x", "--uri", "http://h"],
        ["pools", "set", "x", "1"],
    ):
        assert "There is no team 'alfa'." in secret(*command, "--team", "alfa", code=3).stderr


def test_a_uri_can_come_from_the_standard_input(secret: Cli) -> None:
    secret("connections", "add", "shop", "--uri", "-", input="postgres://u:hunter2@db/x\n")

    assert secret.json("connections", "get", "shop", "--reveal")["password"] == "hunter2"


def test_doctor_names_a_backend_that_fails(secret: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fine = [one for one in secret.json("doctor", code=None) if one["check"] == "secrets"]
    table = {"kind": "vault", "url": "http://127.0.0.1:9", "token": "the-secret"}
    monkeypatch.setenv("AIOSCHED__SECRETS__BACKENDS", json.dumps([table]))
    broken = [one for one in secret.json("doctor", code=1) if one["check"] == "secrets"]

    assert [(one["status"], one["text"]) for one in fine] == [("ok", "the backend files answers")]
    assert [one["status"] for one in broken] == ["error"]
    assert "The backend vault was asked for anything and has failed" in broken[0]["text"]
    assert "the-secret" not in str(broken)
