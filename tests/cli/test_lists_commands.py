"""`runs list` and `tasks instances`: across DAGs, by filters; and what `latest` means."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from aiosched.cli.base.options import UsageProblem
from aiosched.cli.dags.lists import read_length, read_when, wanted_runs
from aiosched.core.values.states import RunState, RunType
from aiosched.db.queries.queries import find_run
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound
from tests.cli.conftest import Cli
from tests.cli.records import NOON, add_dag, add_run, add_task


def test_a_time_is_an_instant_or_how_long_ago() -> None:
    assert read_when("24h", "--since", NOON) == NOON - timedelta(days=1)
    assert read_when("2026-01-31", "--since", NOON) == date(2026, 1, 31)
    assert read_when("2026-01-31T06:00", "--since", NOON) == datetime(2026, 1, 31, 6, tzinfo=UTC)
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

    assert (wanted.dags.dag_id, wanted.states, wanted.run_types) == ("d", ("failed",), ("manual",))
    assert (wanted.dags.owners, wanted.dags.tags, wanted.min_seconds) == (("ann",), ("a", "b"), 300)


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


async def some_runs(db: Database) -> None:
    """A failed run of two task instances, and one of another DAG."""
    sales = await add_dag(db, "sales", owner="ann", tags=["etl"])
    run = await add_run(db, "sales", sales, "r1", state="failed", end_date=NOON + timedelta(minutes=5))
    await add_task(db, run, 0, "failed", reason="KeyError: 'x'", try_number=2)
    await add_task(db, run, 1, "upstream_failed")
    other = await add_dag(db, "other")
    await add_run(db, "other", other, "r2", run_type="scheduled")


def test_runs_and_task_instances_are_listed_across_dags(on_db: Cli) -> None:
    on_db.work(some_runs)

    for without in ("state=failed", "owner=ann", "tag=etl", "dag=sales", "type=manual"):
        assert [row["run_id"] for row in on_db.json("runs", "list", "--not", without)] == ["r2"], without
    assert [row["dag_id"] for row in on_db.json("dags", "list", "--not", "tag=etl")] == ["other"]
    left = on_db.json("tasks", "instances", "--not", "state=failed", "--not", "pool=none")
    assert [row["state"] for row in left] == ["upstream_failed"]
    for without in ("owner=ann", "state=failed", "state=upstream_failed"):
        assert len(on_db.json("tasks", "instances", "--not", without)) == (0 if without == "owner=ann" else 1)
    for wrong, told in (
        ("state=faild", "there is no such state; there are queued"),
        ("pool=etl", "with one of the filters dag, owner, team, tag, state, type"),
        ("state", "write FILTER=VALUE"),
    ):
        assert told in on_db("runs", "list", "--not", wrong, code=2).stderr

    assert [line[:4] for line in on_db.lines("runs", "list", "--since", "2026-11-20", "--type", "scheduled")] == [
        ["other", "r2", "running", "scheduled"]
    ]
    assert [row["run_id"] for row in on_db.json("runs", "list", "--owner", "ann", "--tag", "etl")] == ["r1"]
    assert on_db("runs", "list", "--longer-than", "99999d").stderr == "no such runs\n"
    (failed,) = on_db.lines("tasks", "instances", "--state", "failed", "--error", "keyerror", "--tag", "etl")
    assert failed[:4] == ["sales", "r1", "extract", "failed"]
    assert [row["pool"] for row in on_db.json("tasks", "instances", "--pool", "etl")] == ["etl"]
    assert on_db("tasks", "instances", "--operator", "None").stderr == "no such task instances\n"
    assert "1 of the newest runs; more with --limit" in on_db("tasks", "instances", "-n", "1").stderr
    assert "There is no DAG 'sale'. Did you mean" in on_db("tasks", "instances", "--dag", "sale", code=3).stderr


async def runs_around_a_day(db: Database) -> None:
    """Of a DAG in Kolkata (UTC+5:30) and of one in UTC: around the 20th, and two runs of the 22nd."""
    for dag_id, timezone, times in (
        ("kolkata", "Asia/Kolkata", ("19T18:29", "19T18:30", "20T18:29", "20T18:30")),
        ("utc", "UTC", ("19T23:59", "20T00:00", "20T23:59", "21T00:00", "22T01:00", "22T02:00")),
    ):
        version = await add_dag(db, dag_id, timezone=timezone)
        for at in times:
            instant = datetime.fromisoformat(f"2026-11-{at}+00:00")
            ended = {"state": "success", "end_date": instant, "run_type": "scheduled"}
            run = await add_run(db, dag_id, version, f"s{at}", logical_date=instant, run_after=instant, **ended)
            await add_task(db, run, 0, "success", try_number=1)


def test_a_date_is_the_whole_day_in_the_time_zone_of_the_dag(on_db: Cli) -> None:
    on_db.work(runs_around_a_day)
    day = "2026-11-20"

    def listed(*words: str) -> list[str]:
        return sorted(row["run_id"] for row in on_db.json(*words))

    for words in (("runs", "list"), ("tasks", "instances")):
        assert listed(*words, "-d", "kolkata", "--since", day, "--until", day) == ["s19T18:30", "s20T18:29"]
        assert listed(*words, "-d", "utc", "--since", day, "--until", day) == ["s20T00:00", "s20T23:59"]
        assert listed(*words, "-d", "kolkata", "--until", f"{day}T18:29Z") == ["s19T18:29", "s19T18:30"]
    assert listed("runs", "list", "-d", "kolkata", "--ended-since", day) == ["s19T18:30", "s20T18:29", "s20T18:30"]
    assert len(listed("runs", "list", "--since", day, "--until", day)) == 4  # across DAGs: of UTC
    seen = on_db.json("tasks", "clear", "kolkata", "--from", day, "--to", day, "--dry-run")
    assert seen["runs"] == ["s19T18:30", "s20T18:29"]
    assert (
        on_db.json("runs", "bulk", "clear", "-d", "kolkata", "--since", day, "--until", day, "--dry-run")["runs"] == 2
    )


def test_a_date_names_the_only_run_of_that_day(on_db: Cli) -> None:
    on_db.work(runs_around_a_day)

    assert on_db.json("runs", "show", "kolkata", "2026-11-21")["run_id"] == "s20T18:30"
    assert on_db.json("runs", "show", "utc", "2026-11-22T02:00")["run_id"] == "s22T02:00"
    assert "several runs of 'utc': s22T01:00, s22T02:00" in on_db("runs", "show", "utc", "2026-11-22", code=3).stderr
    assert "has no run '2026-11-23'" in on_db("runs", "show", "utc", "2026-11-23", code=3).stderr


def test_one_action_on_many_is_shown_before_it_is_done(on_db: Cli) -> None:
    """Without a scheduler: a preview says the same, and the requests wait."""
    on_db.work(some_runs)

    seen = on_db.json("runs", "bulk", "clear", "--tag", "etl", "--only-failed", "--dry-run")
    assert (seen["count"], seen["runs"], seen["dags"]) == (2, 1, 1)
    assert seen["states"] == {"failed": 1, "upstream_failed": 1}
    looked = on_db("tasks", "bulk", "mark", "--to", "skipped", "--error", "keyerror", "--dry-run")
    assert looked.stdout == "sales\tr1\textract\tfailed\t2\n"
    assert looked.stderr.endswith("would mark 1 task instance in 1 run of 1 DAG (1 failed)\n")
    assert on_db("runs", "bulk", "clear", "--state", "queued").stderr == "no such runs\n"

    cancelled = on_db("runs", "bulk", "cancel", "--type", "manual", "--dag", "sales", code=1)
    assert "refused: r1 of sales: Run r1 of sales is failed already; there is nothing to cancel." in cancelled.stderr
    assert "Add --yes" in on_db("runs", "bulk", "cancel", "--since", "2026-01-01", code=2).stderr
    waiting = on_db("runs", "bulk", "note", "--note", "seen", "--since", "2026-01-01", "--yes")
    assert "2 requests not applied yet" in waiting.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("runs", "bulk", "clear"), "This would concern everything"),
        (("runs", "bulk", "mark", "--dag", "sales"), "mark needs --to with one of: success, failed, queued"),
        (("tasks", "bulk", "mark", "--dag", "sales", "--to", "queued"), "success, failed, skipped"),
        (("tasks", "bulk", "cancel", "--dag", "sales"), "cancel is for runs"),
        (("runs", "bulk", "note", "--dag", "sales"), "note needs --note TEXT"),
        (("runs", "bulk", "cancel", "--dag", "sales", "--to", "failed"), "--to is for mark, not for cancel"),
        (("runs", "bulk", "cancel", "--dag", "sales", "-f"), "--only-failed is for clear"),
    ],
)
def test_an_action_on_many_that_means_nothing_is_refused(on_db: Cli, words: tuple[str, ...], said: str) -> None:
    assert said in on_db(*words, code=2).stderr


def test_an_action_on_more_than_the_limit_is_refused(on_db: Cli) -> None:
    on_db.work(some_runs)

    refused = on_db("runs", "bulk", "cancel", "--since", "2026-01-01", "-n", "1", "--yes", code=4)
    assert "The filters choose more than 1 run: narrow them" in refused.stderr
