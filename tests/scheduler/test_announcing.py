"""The scheduler tells the executor what runs next, before it is due: once, at no cost for the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from aiosched.clock import FakeClock
from aiosched.core.creation.upcoming import MOST_ANNOUNCED, NO_RUN
from aiosched.core.graph.spec import DagSpec
from aiosched.core.values.messages import Upcoming
from tests.scheduler.harness import NEW_YEAR, ScriptedExecutor, dag, running, task

HOUR = timedelta(hours=1)
AHEAD = 30.0
SAY = "UPDATE dag_version SET file = d.dag_id || '.py', source_hash = 'h' || number FROM dag AS d WHERE d.dag_id = {}"


class Preparing(ScriptedExecutor):
    """Notes what is announced."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.prepared: list[Upcoming] = []

    def prepare(self, upcoming: Sequence[Upcoming]) -> None:
        self.prepared += upcoming

    def names(self) -> list[str]:
        return [each.run.dag_id for each in self.prepared]


def hourly(dag_id: str, **options: object) -> DagSpec:
    return dag(dag_id, schedule=HOUR, start_date=NEW_YEAR, catchup=False, **options)


async def stored(dsn: str, clock: FakeClock, *specs: DagSpec) -> None:
    """Store DAGs that come from files."""
    async with running(dsn, clock, *specs) as it:
        await it.execute(SAY.format("dag_version.dag_id"))


@pytest.fixture
def executor(clock: FakeClock) -> Preparing:
    return Preparing(clock)


async def test_a_file_is_announced_once_before_its_run_is_due(dsn: str, clock: FakeClock, executor: Preparing) -> None:
    await stored(dsn, clock, hourly("d"))
    async with running(dsn, clock, executor=executor) as it:
        await it.advance(3600 - AHEAD - 1)
        assert not executor.prepared

        await it.advance(1)

        (one,) = executor.prepared
        assert (one.run.key, one.run.file, one.run.source_hash, one.is_async) == (NO_RUN, "d.py", "h1", False)
        await it.advance(AHEAD - 1)
        assert not executor.submitted
        await it.advance(1)
        assert len(executor.submitted) == len(executor.prepared) == 1
        await it.finish_all()
        await it.advance(3600 - AHEAD)
        assert executor.names() == ["d", "d"]


async def test_it_takes_no_statement(dsn: str, clock: FakeClock, executor: Preparing) -> None:
    await stored(dsn, clock, *(hourly(f"d{n}") for n in range(5)))
    async with running(dsn, clock, executor=executor, count_statements=True) as it:
        await it.advance(3600 - AHEAD - 1)
        statements = it.scheduler.db.statements
        assert statements is not None
        before = statements.total
        clock.advance(1)
        it.session.wakeups.creation.wake()
        await it.settled()

        assert len(executor.prepared) == 5
        assert statements.total == before


async def test_not_more_than_so_many_the_soonest_first(dsn: str, clock: FakeClock, executor: Preparing) -> None:
    later = [hourly(f"later{n}") for n in range(MOST_ANNOUNCED)]
    sooner = dag("sooner", schedule=timedelta(minutes=59, seconds=45), start_date=NEW_YEAR, catchup=False)
    await stored(dsn, clock, *later, sooner)
    async with running(dsn, clock, executor=executor) as it:
        await it.advance(3600 - AHEAD)

        assert len(executor.prepared) == MOST_ANNOUNCED
        assert executor.names()[0] == "sooner"


async def test_a_paused_dag_is_not_announced(dsn: str, clock: FakeClock, executor: Preparing) -> None:
    await stored(dsn, clock, hourly("d"))
    async with running(dsn, clock, executor=executor) as it:
        await it.ask("pause", "d")
        await it.advance(3600 - AHEAD)

        assert not executor.prepared


async def test_code_that_changes_within_reach_is_announced_again(
    dsn: str, clock: FakeClock, executor: Preparing
) -> None:
    await stored(dsn, clock, hourly("d"))
    async with running(dsn, clock, executor=executor) as it:
        await it.advance(3600 - AHEAD)
        await it.execute(BY_FILE)

        await it.register(hourly("d", description="changed"))

        assert [each.run.source_hash for each in executor.prepared] == ["h1", None]


BY_FILE = """
    CREATE FUNCTION from_file() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.file = 'd.py'; RETURN NEW; END $$;
    CREATE TRIGGER from_file BEFORE INSERT ON dag_version FOR EACH ROW EXECUTE FUNCTION from_file()
"""


async def test_a_run_that_waits_is_announced(dsn: str, clock: FakeClock, executor: Preparing) -> None:
    await stored(dsn, clock, dag("d", task("a")))
    async with running(dsn, clock, executor=executor) as it:
        await it.trigger("d", "later", run_after=NEW_YEAR + HOUR)
        executor.prepared.clear()

        await it.advance(3600 - AHEAD)

        assert executor.names() == ["d"]


async def test_an_executor_that_fails_to_prepare_runs_its_tasks(
    dsn: str, clock: FakeClock, executor: Preparing
) -> None:
    def broken(upcoming: Sequence[Upcoming]) -> None:
        raise ValueError("broken")

    executor.prepare = broken  # type: ignore[method-assign]
    await stored(dsn, clock, hourly("d"))
    async with running(dsn, clock, executor=executor) as it:
        await it.advance(3600)

        assert len(executor.submitted) == 1
        await it.assert_consistent()


async def test_without_the_setting_or_an_executor_that_prepares_nothing_is_kept(
    dsn: str, clock: FakeClock, executor: Preparing
) -> None:
    await stored(dsn, clock, hourly("d"))
    async with running(dsn, clock, executor=executor, warm_ahead=0.0) as it:
        await it.advance(3600)
        assert not executor.prepared
    async with running(dsn, clock) as it:
        assert it.session.cache.work.upcoming.next_look is None
