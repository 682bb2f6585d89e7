"""Invariants of schedules, assets, backfills and callbacks, in worlds where anything may happen at any pass.

Source: the semantics reference, section 35: 3, 4 and 5 (schedules over clock changes and restarts), 16
(clearing and marking), 17 (coalescing), 18 (callbacks).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain, pairwise

from hypothesis import given
from hypothesis import strategies as st

from aiosched import Asset
from aiosched.core.creation.run_creation import compute_next
from aiosched.core.graph.spec import DagSpec
from aiosched.core.timetables.base import DataInterval
from aiosched.core.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from aiosched.core.values.states import FINISHED, RUN_FINISHED, RunType, TaskState
from aiosched.errors import AioschedError
from aiosched.testing import World
from tests.testing.world_builders import NEW_YEAR, dag, happen, minutes, task

ACCIDENTS = ("restart", "crash", "lost before", "lost after", "pause", "unpause")
CRONS = ["0 0 * * *", "30 2 * * *", "15 1,2,3 * * *", "0 */6 * * *", "0 12 * * 1-5"]
SPRING = datetime(2026, 3, 27, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 23, tzinfo=UTC)


def happenings(*kinds: str, most: int = 8, within: int = 60) -> st.SearchStrategy[dict[int, str]]:
    """What happens after which pass."""
    return st.dictionaries(st.integers(0, within), st.sampled_from(kinds), max_size=most)


# ---- schedules (4, 5) ----


@st.composite
def schedules(draw: st.DrawFn, *, catchup: bool) -> tuple[DagSpec, datetime]:
    """A DAG with an interval schedule, and an instant shortly before a change of its clocks."""
    start = draw(st.sampled_from([SPRING, AUTUMN])) + timedelta(minutes=draw(st.integers(0, 2 * 24 * 60)))
    zone = draw(st.sampled_from(["Europe/Amsterdam", "America/New_York", "Australia/Lord_Howe", "UTC"]))
    hours = timedelta(hours=draw(st.integers(3, 30)))
    timetable = draw(
        st.one_of(
            st.sampled_from(CRONS).map(lambda cron: CronDataIntervalTimetable(cron, zone)),
            st.just(DeltaDataIntervalTimetable(hours)),
        )
    )
    spec = DagSpec(
        dag_id="d",
        timetable=timetable,
        timezone=zone,
        start_date=start - timedelta(days=draw(st.integers(0, 3))),
        catchup=catchup,
        max_active_runs=draw(st.integers(1, 3)),
        tasks=(task("a"),),
    )
    return spec, start


async def lived(
    spec: DagSpec, start: datetime, happens: Mapping[int, str], takes: timedelta
) -> tuple[World, list[datetime]]:
    """The world after five days, and the instants at which something happened to it."""
    world, reconsidered = World(now=start, takes=takes), list[datetime]()
    world.add(spec)
    passes = 0
    while world.now < start + timedelta(days=5) and await world.step():
        if (kind := happens.get(passes)) is not None:
            await happen(world, kind, "d")
            reconsidered.append(world.now)
        passes += 1
    return world, reconsidered


durations = st.sampled_from([minutes(1), minutes(90), timedelta(hours=20)])


@given(schedules(catchup=True), happenings(*ACCIDENTS), durations)
async def test_caught_up_runs_have_contiguous_intervals_from_the_first_on(
    schedule: tuple[DagSpec, datetime], happens: dict[int, str], takes: timedelta
) -> None:
    spec, start = schedule

    world, _ = await lived(spec, start, happens, takes)

    intervals = [(run.interval_start, run.interval_end) for run in world.runs("d")]
    first = compute_next(spec, None, start)
    assert first is not None
    assert intervals[:1] in ([], [(first.interval.start, first.interval.end)])
    assert all(earlier[1] == later[0] for earlier, later in pairwise(intervals)), "contiguous, none twice"
    assert all(run.run_after <= at for run, at in zip(world.runs("d"), created_at(world), strict=True))


@given(schedules(catchup=False), happenings(*ACCIDENTS), durations)
async def test_without_catchup_only_the_latest_complete_interval_is_run(
    schedule: tuple[DagSpec, datetime], happens: dict[int, str], takes: timedelta
) -> None:
    spec, start = schedule

    world, reconsidered = await lived(spec, start, happens, takes)

    runs, created = world.runs("d"), created_at(world)
    instants = {start, *(entry[0] for entry in world.log), *reconsidered}
    for before, run, since, at in zip([None, *runs], runs, [start, *created], created, strict=False):
        last = None if before is None else DataInterval(before.interval_start, before.interval_end)  # type: ignore
        latest = [compute_next(spec, last, instant) for instant in instants if since <= instant <= at]
        found = {(planned.interval.start, planned.interval.end) for planned in latest if planned is not None}
        assert (run.interval_start, run.interval_end) in found, f"{run.run_id} of {at} was never the latest"
    ends = [(run.interval_start, run.interval_end) for run in runs]
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(ends))  # type: ignore[operator]


def created_at(world: World) -> list[datetime]:
    return [at for at, what, *_ in world.log if what == "run created"]


# ---- assets (17) ----


@given(
    st.lists(st.integers(0, 12).map(minutes), max_size=8),
    happenings(*ACCIDENTS[:4], within=40),
    st.integers(1, 2),
    durations,
)
async def test_events_between_two_runs_of_a_consumer_are_one_run_that_lists_them_all(
    gaps: list[timedelta], happens: dict[int, str], limit: int, takes: timedelta
) -> None:
    world = World(now=NEW_YEAR, takes=takes)
    world.add(dag("reader", schedule=Asset("a"), max_active_runs=limit))
    passes = 0
    for number, gap in enumerate(gaps):
        until = world.now + gap
        while world.now <= until and await world.step():
            await happen(world, happens.get(passes), "reader")
            passes += 1
        world.clock.at = max(world.now, until)
        world.emit("a", extra={"number": number})
    await world.run_until_idle()

    listed = [[event.extra for event in world.events_of("reader", run.run_id)] for run in world.runs("reader")]
    assert list(chain.from_iterable(listed)) == [f'{{"number":{number}}}' for number in range(len(gaps))]
    assert all(listed), "no run without an event"


# ---- backfills (3), clearing and marking (16), callbacks (18) ----

DEEDS = ("clear", "clear failed", "mark task", "mark run", "requeue", "cancel", "backfill", "pause backfill",
         "resume backfill", "cancel backfill")  # fmt: skip


def deed(world: World, kind: str | None, number: int, by_hand: set[str]) -> None:
    """Somebody does something to a run that stands for `number`; those that they end are noted."""
    runs = world.runs("d")
    run = runs[number % len(runs)]
    unfinished = [n for n, state in world.backfills("d").items() if state != "completed"]
    match kind:
        case "clear":
            world.clear("d", [run.run_id], task_ids=[f"t{number % 2}"], downstream=bool(number % 3))
        case "clear failed":
            world.clear("d", only_failed=True)
        case "mark task":
            world.mark_task("d", run.run_id, "t0", ["success", "failed", "skipped"][number % 3])
        case "mark run":
            by_hand.add(run.run_id)
            world.mark_run("d", run.run_id, ["success", "failed"][number % 2])
        case "requeue":
            world.mark_run("d", run.run_id, "queued")
        case "cancel":
            world.cancel("d", run.run_id)
            by_hand.add(run.run_id)
        case "backfill":
            first = NEW_YEAR - timedelta(days=number % 5)
            rerun = ["missing", "failed", "all"][number % 3]
            world.backfill("d", first, NEW_YEAR, rerun=rerun, max_active_runs=1 + number % 2, backwards=number % 4 == 0)
        case "pause backfill" | "resume backfill" if unfinished:
            world.pause_backfill(unfinished[0], paused=kind == "pause backfill")
        case "cancel backfill" if unfinished:
            by_hand.update(r.run_id for r in runs if r.backfill_id == unfinished[0] and r.state == "queued")
            world.cancel_backfill(unfinished[0])


@st.composite
def lives(draw: st.DrawFn) -> tuple[DagSpec, dict[str, int | bool]]:
    rules = [draw(st.sampled_from(["all_success", "all_done", "one_failed", "none_failed"])) for _ in range(2)]
    spec = dag(
        "d",
        task("t0", retries=draw(st.integers(0, 1)), retry_delay=60.0, pool="etl"),
        task("t1", after="t0", trigger_rule=rules[0], pool="etl", depends_on_past=False),
        task("t2", after="t0 t1", trigger_rule=rules[1]),
        schedule=timedelta(days=1),
        start_date=NEW_YEAR - timedelta(days=draw(st.integers(1, 3))),
        catchup=True,
        max_active_runs=draw(st.integers(1, 2)),
        max_active_tasks=draw(st.integers(1, 3)),
        has_success_callback=True,
        has_failure_callback=True,
    )
    return spec, {name: draw(st.sampled_from([0, 0, 1, True])) for name in ("t0", "t1", "t2")}


@given(lives(), happenings(*DEEDS, *ACCIDENTS[:4], most=12))
async def test_whatever_people_do_every_run_ends_and_is_told_of_once(
    life: tuple[DagSpec, dict[str, int | bool]], happens: dict[int, str]
) -> None:
    spec, fails = life
    world, by_hand = World(now=NEW_YEAR, takes=minutes(1)), set[str]()
    world.pool("etl", slots=1)
    world.add(spec)
    for task_id, count in fails.items():
        world.script("d", task_id, fails=count)
    world.trigger("d")
    for number in range(61):
        with contextlib.suppress(AioschedError):
            deed(world, happens.get(number), number, by_hand)
        await happen(world, happens.get(number), "d")
        if not await world.step():
            break
    for backfill, state in world.backfills("d").items():
        if state == "paused":
            world.pause_backfill(backfill, paused=False)
    world.add(dag("d", *spec.tasks, start_date=NEW_YEAR))
    await world.run_until_idle()

    ended = Counter(run_id for _, what, _, run_id, *_ in world.log if what in ("run success", "run failed"))
    told = Counter(call.run_id for call in world.callbacks)
    for run in world.runs("d"):
        assert run.state in RUN_FINISHED
        states = {TaskState.of(state) for state in world.states("d", run.run_id).values()}
        assert states <= FINISHED or run.reason in ("cancelled", "all_tasks_deadlocked"), f"{run}: {states}"
        if run.run_id not in by_hand:
            assert told[run.run_id] == ended[run.run_id], f"{run.run_id} is told of whenever it ends"
        assert told[run.run_id] <= ended[run.run_id]
    assert set(world.backfills("d").values()) <= {"completed"}
    dates = [run.logical_date for run in world.runs("d") if run.run_type != RunType.MANUAL]
    assert len(set(dates)) == len(dates), "one run for a date"
    assert all(pool is None or pool.used == 0 for pool in world.rows.pools.values())
