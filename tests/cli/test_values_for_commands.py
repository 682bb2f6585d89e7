"""DAG files that read variables and connections at their top, imported by commands."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiosched.core.values.masking import secrets
from aiosched.db.crypto.keyring import new_key
from tests.cli.conftest import Cli

READS = """
from aiosched import BaseHook, DAG, Variable, task

with DAG(Variable.get("name", "by_default"), schedule="@daily"):
    @task
    def host():
        return HOST

    host()
HOST = BaseHook.get_connection("sales").host
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("aiosched")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:], root.level, ours.level = before
    logging.captureWarnings(capture=False)
    secrets.clear()


@pytest.fixture
def dags(tmp_path: Path) -> Path:
    """The DAGs folder."""
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "reads.py").write_text(READS)
    return folder


@pytest.fixture
def stored(on_db: Cli, dags: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line on a database with a variable and a connection."""
    monkeypatch.setenv("AIOSCHED__SECRETS__FERNET_KEYS", new_key())
    on_db("variables", "set", "name", "stored")
    on_db("connections", "add", "sales", "--uri", "postgres://user:hunter2@db")
    return on_db


def test_commands_ask_the_database(stored: Cli) -> None:
    assert stored.json("dags", "check")[0]["dags"] == ["stored"]
    assert stored.json("dags", "test", "stored")["state"] == "success"
    assert stored.json("dags", "next", "stored", "--dags", "dags", "-n", "1")
    assert stored.json("simulate", "--from", "2026-01-01", "--to", "2026-01-03")


def test_without_a_database_there_are_defaults_and_what_is_missing_is_named(
    cli: Cli, dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = cli.json("dags", "check", code=1)
    assert "There is no connection 'sales' here" in found["error"]["message"]
    assert "AIOSCHED_CONN_SALES" in cli("dags", "test", "by_default", code=None).stderr

    monkeypatch.setenv("AIOSCHED_CONN_SALES", "postgres://db")

    assert cli.json("dags", "check")[0]["dags"] == ["by_default"]
    assert cli.json("dags", "test", "by_default")["state"] == "success"


def test_a_database_that_does_not_answer_is_named(dags: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli = Cli("postgresql://127.0.0.1:1/none")
    monkeypatch.setattr("aiosched.parsing.check.PATIENCE", 0.5)

    (found,) = cli.json("dags", "check", code=1)

    assert "The variable 'name' cannot be read now: " in found["error"]["message"]
    assert "127.0.0.1:1" in found["error"]["message"]
