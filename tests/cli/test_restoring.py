"""`db backup` and `db restore` as people use them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli


@pytest.mark.slow  # two homes with servers of their own
def test_an_embedded_database_is_backed_up_and_restored_into_a_new_home(short_path: Path) -> None:
    old, new = Cli(home=short_path / "old"), Cli(home=short_path / "new")
    file = str(short_path / "flows.dump")
    old("db", "migrate")
    old("variables", "set", "greeting", "hello")
    old("db", "backup", file)

    result = new("db", "restore", file)
    refused = new("db", "restore", file, code=4)

    assert "rows of variable\t1\n" in result.stdout
    assert "1 secret in it can be read with the keys of the database that was backed up: fernet.key" in result.stderr
    assert "is not empty" in refused.stderr
    (short_path / "new" / "fernet.key").write_bytes((short_path / "old" / "fernet.key").read_bytes())
    assert "hello" in new("variables", "get", "greeting", "--reveal").stdout


def test_a_restore_is_told_as_data(on_db: Cli, empty_dsn: str, tmp_path: Path) -> None:
    on_db("pools", "set", "etl", "4")
    on_db("db", "backup", "now.dump")

    told = Cli(empty_dsn).json("db", "restore", "now.dump")

    assert (told["file"], told["rows"]["pool"], told["rows"]["partition_lease"]) == ("now.dump", 2, 64)
    assert Cli(empty_dsn).json("pools", "get", "etl")["slots"] == 4


def test_what_is_not_there_is_said(cli: Cli, empty_dsn: str) -> None:
    assert "There is no file gone.dump" in Cli(empty_dsn)("db", "restore", "gone.dump", code=3).stderr
