"""`aiosched teams`: where DAG files lie decides whose DAGs they are."""

from __future__ import annotations

import asyncio

import pytest

from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.records import add_dag


def test_a_team_gets_the_dags_of_its_folders(on_db: Cli, dsn: str) -> None:
    async def add() -> None:
        async with await Database.open(dsn, application_name="test") as db:
            await add_dag(db, "daily", file="sales/daily.py")
            await add_dag(db, "deep", file="sales/ml/deep.py")
            await add_dag(db, "beside", file="sales.py")

    asyncio.run(add())
    on_db("teams", "create", "sales", "--folder", "sales", "--description", "who sell")
    on_db("team", "create", "ml")
    on_db("teams", "add-folder", "ml", "sales/ml/")
    before = on_db.json("teams", "list")
    on_db("teams", "remove-folder", "ml", "sales/ml")
    after = on_db.json("teams", "list")
    on_db("teams", "delete", "sales", "--yes")

    assert [(team["name"], team["folders"], team["dags"]) for team in before] == [
        ("ml", ["sales/ml"], 1),
        ("sales", ["sales"], 1),
    ]
    assert [(team["name"], team["dags"]) for team in after] == [("ml", 0), ("sales", 2)]
    assert [team["name"] for team in on_db.json("teams", "list")] == ["ml"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("create", "sales"), 4, "a team 'sales' already"),
        (("add-folder", "ml", "sales"), 4, "belongs to the team 'sales' already"),
        (("add-folder", "sale", "x"), 3, "Did you mean sales?"),
        (("add-folder", "ml", "../x"), 2, "is no folder"),
        (("remove-folder", "ml", "sales"), 3, "has no folder 'sales'"),
        (("delete", "sale", "--yes"), 3, "Did you mean sales?"),
        (("move-dag", "nothing", "--team", "ml"), 3, "no DAG 'nothing'"),
        (("move-dag", "nothing", "--team", "sale"), 3, "Did you mean sales?"),
    ],
)
def test_what_cannot_be_is_told(on_db: Cli, words: tuple[str, ...], code: int, said: str) -> None:
    on_db("teams", "create", "sales", "--folder", "sales")
    on_db("teams", "create", "ml")

    assert said in on_db("teams", *words, code=code).stderr
