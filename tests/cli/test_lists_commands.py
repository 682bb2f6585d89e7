"""`runs list` and `tasks instances`: across DAGs, by filters; and what `latest` means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from aiosched.cli.base.options import UsageProblem
from aiosched.cli.dags.lists import read_length, read_when, wanted_runs
from aiosched.core.values.states import RunState, RunType
from aiosched.db.queries.queries import find_run
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound
from tests.cli.records import NOON, add_dag, add_run


def test_a_time_is_an_instant_or_how_long_ago() -> None:
    assert read_when("24h", "--since", NOON) == NOON - timedelta(days=1)
    assert read_when("2026-01-31", "--since", NOON) == datetime(2026, 1, 31, tzinfo=UTC)
    assert read_when(None, "--since", NOON) is None
    assert [read_length(text, "--longer-than") for text in ("90s", "1.5m", "2h", "7d", "1w")] == [
        90, 90, 7200, 604800, 604800,
    ]  # fmt: skip
    for wrong in ("yesterday", "99999999999w"):
        with pytest.raises(UsageProblem, match=f"--since {wrong}"):
            read_when(wrong, "--since", NOON)
    with pytest.raises(UsageProblem, match="--longer-than long: write a duration as 90s"):
        wanted_runs(None, None, longer_than="long")


def test_options_name_the_runs_that_are_wanted() -> None:
    wanted = wanted_runs("d", [RunState.FAILED], [RunType.MANUAL], "ann", ["a", "b"], longer_than="5m")

    assert (wanted.dag_id, wanted.states, wanted.run_types) == ("d", ("failed",), ("manual",))
    assert (wanted.owner, wanted.tags, wanted.min_seconds) == ("ann", ("a", "b"), 300)


async def test_the_latest_run_is_the_newest_that_no_backfill_made(db: Database) -> None:
    version = await add_dag(db, "sales")
    await add_run(db, "sales", version, "daily", run_type="scheduled")
    await add_run(db, "sales", version, "old", run_type="backfill", state="failed")

    async def found(reference: str) -> str:
        return (await find_run(db, "sales", reference)).run_id

    assert [await found(each) for each in ("latest", "latest-failed", "latest-backfill")] == ["daily", "old", "old"]

    only = await add_dag(db, "filled")
    await add_run(db, "filled", only, "past", run_type="backfill")
    assert (await find_run(db, "filled", "latest")).run_id == "past"
    with pytest.raises(NotFound, match="has no failed run"):
        await find_run(db, "filled", "latest-failed")
