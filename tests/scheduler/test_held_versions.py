"""DAG versions are held as long as something needs them."""

from __future__ import annotations

from aiosched.clock import FakeClock
from tests.scheduler.harness import NEW_YEAR, Running, dag, running, task

POLL = 11.0  # seconds, after which the scheduler has looked at everything


def held(it: Running) -> list[int]:
    """The numbers of the versions that are held."""
    return sorted(version.number for version, _ in it.session.cache.versions.values())


async def test_versions_that_nothing_needs_are_forgotten(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"))) as it:
        for number in range(5):
            await it.register(dag("d", task(f"t{number}")))
        assert len(held(it)) > 1

        await it.advance(POLL)

        newest = it.session.cache.dags["d"].version.number
        assert held(it) == [newest]


async def test_the_versions_of_runs_are_held_until_these_are_over_and_read_again_when_they_are_asked_for(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d", task("a"), max_active_runs=1)) as it:
        await it.trigger("d", "runs")
        await it.register(dag("d", task("a"), task("b"), max_active_runs=1))
        await it.trigger("d", "waits")
        await it.register(dag("d", task("c"), max_active_runs=1))
        await it.advance(POLL)
        assert held(it) == [1, 2, 3]

        await it.finish("a", run_id="runs")
        await it.advance(POLL)
        assert held(it) == [2, 3]

        await it.finish_all()
        await it.advance(POLL)
        assert held(it) == [3]

        await it.ask("clear", "d", run_ids=["runs", "waits"])
        await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}
        await it.assert_consistent()


async def test_a_dag_that_is_deleted_takes_its_versions_along(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", schedule="@hourly", start_date=NEW_YEAR), dag("other")) as it:
        await it.ask("delete_dag", "d")
        await it.advance(POLL)

        assert [version.spec.dag_id for version, _ in it.session.cache.versions.values()] == ["other"]
