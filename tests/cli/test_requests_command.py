"""`aiosched requests`: the audit log, and withdrawing what nobody has applied."""

from __future__ import annotations

import pytest

from aiosched.cli.base.session import requester
from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.records import add_dag


async def sales(db: Database) -> None:
    await add_dag(db, "sales")
    await add_dag(db, "other")


@pytest.fixture
def waiting(on_db: Cli) -> Cli:
    """Two requests, 1 and 2, that no scheduler has applied."""
    on_db.work(sales)
    on_db("dags", "trigger", "sales", "-p", "day=1", "--reason", "again")
    on_db("dags", "pause", "other")
    return on_db


def test_requests_are_listed_newest_first(waiting: Cli) -> None:
    assert [(row["id"], row["verb"], row["dag_id"]) for row in waiting.json("requests", "list")] == [
        (2, "pause", "other"),
        (1, "trigger", "sales"),
    ]
    assert [row["id"] for row in waiting.json("requests", "list", "--dag", "sales")] == [1]
    assert [row["id"] for row in waiting.json("requests", "list", "--verb", "pause")] == [2]
    assert waiting("requests", "list", "--state", "applied").stdout == ""


def test_a_request_is_shown_with_its_arguments(waiting: Cli) -> None:
    shown = waiting.json("requests", "show", "1")

    assert (shown["state"], shown["reason"], shown["args"]["conf"], shown["attempts"]) == (
        "waiting",
        "again",
        {"day": 1},
        0,
    )
    assert "arguments" in waiting("request", "show", "1", "-o", "plain").stdout


def test_a_withdrawn_request_is_refused_in_the_name_of_who_withdrew_it(waiting: Cli) -> None:
    assert waiting.json("requests", "withdraw", "1", "--reason", "a typo") == {"id": 1, "withdrawn": True}

    row = waiting.json("requests", "show", "1")
    assert (row["state"], row["result"]["error"]) == ("refused", f"withdrawn by {requester()}: a typo")
    assert [row["id"] for row in waiting.json("requests", "list", "--state", "waiting")] == [2]
    assert "was refused already" in waiting("requests", "withdraw", "1", code=4).stderr


def test_a_request_that_does_not_exist_is_not_found(waiting: Cli) -> None:
    for verb in ("show", "withdraw"):
        assert "There is no request 9; see `aiosched requests list`." in waiting("requests", verb, "9", code=3).stderr
