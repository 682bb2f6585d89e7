"""The commands that `why` suggests, run against a real database: each does what it promises, and no more.

Commands that clear run with --dry-run, those that only read as they are.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec, GroupSpec, LiteralLength, MappingSpec, TaskSpec
from aiosched.core.values.ids import instance_name, partition_of
from aiosched.db.server.engine import Database
from aiosched.parsing.store import register_specs
from tests.cli.conftest import Cli
from tests.cli.records import NOON, add_dag, add_run, add_task, insert, own, quarantine

FAILURES: Final = ("failed", "upstream_failed")
numbers = count()

Place = tuple[str, int]  # task id, map index


def task(task_id: str, *upstream: str, **fields: Any) -> TaskSpec:
    return TaskSpec(task_id=task_id, operator="PythonOperator", upstream=upstream, **fields)


@dataclass(frozen=True)
class Ended:
    """A run that has ended, with the state of each of its task instances."""

    spec: DagSpec
    states: Mapping[Place, str]
    reason: str

    @property
    def graph(self) -> Graph:
        return Graph(self.spec)

    def of(self, *states: str) -> set[Place]:
        return {place for place, state in self.states.items() if state in states}

    def below(self, task_id: str) -> set[str]:
        graph = self.graph
        return {graph.task_ids[task] for task in graph.descendants(graph.index[task_id])}


def sizes(reloads: int, members: int) -> DagSpec:
    """A DAG with a mapped task and a mapped group, each of which something depends on."""
    each = MappingSpec(inputs=(LiteralLength(reloads),))
    group = GroupSpec(group_id="g", mapping=MappingSpec(inputs=(LiteralLength(members),)))
    tasks = (
        task("extract"),
        task("reload", "extract", mapping=each),
        task("collect", "reload"),
        task("g.a", "extract", group_id="g"),
        task("g.b", "g.a", group_id="g"),
        task("report", "collect", "g.b"),
        task("apart"),
    )
    return DagSpec(dag_id="d", tasks=tasks, groups=(group,))


def instances(spec: DagSpec, reloads: int, members: int) -> list[Place]:
    lengths = {"reload": reloads, "g.a": members, "g.b": members}
    return [
        (one.task_id, index)
        for one in spec.tasks
        for index in (range(lengths[one.task_id]) if one.task_id in lengths else (-1,))
    ]


@st.composite
def ended_runs(draw: st.DrawFn) -> Ended:
    """Runs that failed because of tasks, or that were cancelled, which skips what had not begun."""
    reloads, members = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    spec = sizes(reloads, members)
    upstream = {one.task_id: one.upstream for one in spec.tasks}
    reason = draw(st.sampled_from(["task_failure", "task_failure", "cancelled"]))
    ends = st.sampled_from(["success", "success", "failed"] + ["skipped"] * (reason == "cancelled"))
    states: dict[Place, str] = {}
    for name, index in instances(spec, reloads, members):
        before = {
            state
            for (other, place), state in states.items()
            if other in upstream[name] and (place == index or not (name == "g.b" and other == "g.a"))
        }
        if before & {*FAILURES, "skipped"}:
            states[name, index] = "skipped" if reason == "cancelled" else "upstream_failed"
        else:
            states[name, index] = draw(ends)
    if not {"failed", "skipped"} & set(states.values()):
        states["apart", -1] = "failed"
    return Ended(spec, states, reason)


async def store(db: Database, dag_id: str, ended: Ended) -> None:
    version = await add_dag(db, dag_id, tasks=ended.spec.tasks, groups=ended.spec.groups)
    run = await add_run(db, dag_id, version, "manual__2026-11-20", state="failed", reason=ended.reason, end_date=NOON)
    index = {one.task_id: place for place, one in enumerate(ended.spec.tasks)}
    for (task_id, map_index), state in ended.states.items():
        await add_task(db, run, index[task_id], state, map_index=map_index, try_number=1)


def words_of(command: str) -> list[str]:
    program, *words = shlex.split(command)
    assert program == "aiosched"
    return words


def touched(cli: Cli, command: str) -> set[Place]:
    """What a command that clears would touch."""
    found = cli.json(*words_of(command), "--dry-run")
    assert found["count"] == len(found["instances"])
    return {(one["task_id"], one["map_index"]) for one in found["instances"]}


@pytest.mark.slow  # 12 runs, each with many commands; the next test has one of every kind
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(ended=ended_runs(), data=st.data())
def test_what_has_ended_is_run_again_by_the_smallest_change(on_db: Cli, ended: Ended, data: st.DataObject) -> None:
    dag_id = f"d{next(numbers)}"
    on_db.work(lambda db: store(db, dag_id, ended))

    *logs, clear = on_db.json("why", dag_id, "latest")["commands"]
    for log in logs:
        read = on_db.json(*words_of(log))
        assert ended.states[read["task_id"], read["map_index"]] == "failed"
    if ended.reason == "task_failure":
        assert touched(on_db, clear) == ended.of(*FAILURES)
    else:
        left = ended.of("failed", "skipped")
        assert left <= touched(on_db, clear)
        if "--task-id" in clear:
            assert {name for name, _ in touched(on_db, clear)} == {name for name, _ in left}

    choice = st.sampled_from(sorted(ended.of("failed", "upstream_failed", "skipped")))
    for place in {data.draw(choice), data.draw(choice)}:
        said = on_db.json("why", dag_id, "latest", instance_name(*place))
        *logs, clear = said["commands"]
        for log in logs:
            read = on_db.json(*words_of(log))
            assert (read["task_id"], read["map_index"]) == place
        found, state = touched(on_db, clear), ended.states[place]
        if state == "upstream_failed":
            roots = {(one["task_id"], one["map_index"]) for gate in said["gates"] for one in gate["holders"]}
            assert {*roots, place} <= found <= ended.of(*FAILURES)
        else:
            others = {name for name, _ in found - {place}}
            assert place in found
            assert others <= ended.below(place[0])
            assert state == "skipped" or found <= ended.of(*FAILURES)


def test_a_clear_of_a_large_run_touches_what_failed(on_db: Cli) -> None:
    """202 instances of which 3 failed, each of the mapped ones by itself."""
    spec = sizes(200, 1)
    states = dict.fromkeys(instances(spec, 200, 1), "success")
    states |= {("reload", 17): "failed", ("reload", 99): "failed", ("apart", -1): "failed"}
    states |= {("collect", -1): "upstream_failed", ("report", -1): "upstream_failed"}
    on_db.work(lambda db: store(db, "large", Ended(spec, states, "task_failure")))

    (*_, whole) = on_db.json("why", "large", "latest")["commands"]
    log, one = on_db.json("why", "large", "latest", "reload[99]")["commands"]

    assert touched(on_db, whole) == {place for place, state in states.items() if state in FAILURES}
    assert touched(on_db, one) == {("reload", 99), ("collect", -1), ("report", -1)}
    named = "aiosched tasks clear large --run latest --only-failed --downstream"
    assert touched(on_db, f"{named} --task-id 'reload[99]'") == touched(on_db, one)
    assert touched(on_db, f"{named} --task-id reload --map-index 99") == touched(on_db, one)
    assert on_db.json("tasks", "show", "large", "latest", "reload[99]")["map_index"] == 99
    read = on_db.json("tasks", "logs", "large", "latest", "reload[99]")
    assert read == on_db.json(*words_of(log))
    assert (read["task_id"], read["map_index"]) == ("reload", 99)
    assert "leave one out" in on_db("tasks", "show", "large", "latest", "reload[99]", "--map-index", "3", code=4).stderr
    assert on_db.json(*words_of(log))["map_index"] == 99


# -- what waits: the command opens its gate, or asks a scheduler to -------------------------------


async def paused(db: Database) -> None:
    await add_run(db, "sales", await add_dag(db, "sales", is_paused=True), "r1", state="queued", queued_at=NOON)


async def pool(db: Database, name: str, slots: int | None) -> None:
    spec = task("load", pool=name, pool_slots=3)
    run = await add_run(db, "sales", await add_dag(db, "sales", tasks=(spec,)), "r1")
    await add_task(db, run, 0, "scheduled", try_number=1, scheduled_at=NOON)
    if slots is not None:
        async with db.acquire() as conn:
            await insert(conn, "pool", {"name": name, "slots": slots, "used": 2 if slots > 3 else 0})


async def paused_backfill(db: Database) -> None:
    version = await add_dag(db, "sales")
    async with db.acquire() as conn:
        row = {
            "dag_id": "sales", "partition": partition_of("sales"), "from_date": NOON, "to_date": NOON,
            "max_active_runs": 1, "is_paused": True,
        }  # fmt: skip
        number = await insert(conn, "backfill", row, returning="id")
    await add_run(db, "sales", version, "r1", state="queued", queued_at=NOON, backfill_id=number, backfill_order=1)


async def in_quarantine(db: Database) -> None:
    await add_run(db, "sales", await add_dag(db, "sales"), "r1", state="queued", queued_at=NOON)
    await quarantine(db, "sales")


async def unscheduled(db: Database) -> None:
    await add_dag(db, "sales")


async def waiting(db: Database) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales", tasks=(task("load", mapping=EACH),)), "r1")
    for index in range(2):
        await add_task(db, run, 0, "up_for_retry", map_index=index, try_number=1, next_at=NOON)


async def requests(db: Database) -> list[str]:
    return [row["verb"] for row in await db.fetch("SELECT verb FROM request WHERE verb <> 'set_pool'")]


EACH: Final = MappingSpec(inputs=(LiteralLength(2),))


@pytest.mark.parametrize(
    ("seed", "what", "starts", "verb"),
    [
        (paused, ("r1",), "dags unpause sales", "unpause"),
        (paused_backfill, ("r1",), "backfill resume ", "backfill_resume"),
        (in_quarantine, ("r1",), "dags release sales", "release_dag"),
        (unscheduled, (), "dags trigger sales", "trigger"),
        (waiting, ("r1",), "why sales r1 load --map-index 0", None),
        (lambda db: pool(db, "etl", 4), ("r1", "load"), "pools set etl 5", None),
        (lambda db: pool(db, "etl", 1), ("r1", "load"), "pools set etl 3", None),
        (lambda db: pool(db, "nightly", None), ("r1", "load"), "pools set nightly 3", None),
    ],
    ids=["paused", "backfill", "quarantine", "unscheduled", "run", "full pool", "small pool", "no pool"],
)
def test_what_waits_is_helped_by_what_is_suggested(
    on_db: Cli, seed: Any, what: tuple[str, ...], starts: str, verb: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosched.cli.base.session.ANSWER_SECONDS", 0.0)  # the scheduler is only a row
    on_db.work(lambda db: own(db, "sales"))
    on_db.work(seed)

    suggested = on_db.json("why", "sales", *what)["commands"]
    for command in suggested:
        on_db(*words_of(command))

    assert [command.startswith(f"aiosched {starts}") for command in suggested] == [True]
    assert on_db.work(requests) == ([] if verb is None else [verb])
    if verb is None:
        assert on_db.json("why", "sales", *what)["commands"] == [] or starts.startswith("why")


async def failed_before(db: Database) -> None:
    version = await add_dag(db, "sales", tasks=(task("load", depends_on_past=True),))
    for run_id, state, date in (("r1", "failed", NOON), ("r2", "running", NOON.replace(hour=13))):
        run = await add_run(db, "sales", version, run_id, state=state, logical_date=date, reason=None)
        await add_task(db, run, 0, "failed" if state == "failed" else None, try_number=1)


def test_what_failed_in_the_previous_run_is_cleared_there(on_db: Cli) -> None:
    on_db.work(lambda db: own(db, "sales"))
    on_db.work(failed_before)

    said = on_db("why", "sales", "r2", "load").stdout
    (command,) = on_db.json("why", "sales", "r2", "load")["commands"]

    assert "has not succeeded in the previous run (depends_on_past): r1 (failed)" in said
    assert f"do\t{command}" in said
    assert touched(on_db, command) == {("load", -1)}
    assert on_db.json(*words_of(command), "--dry-run")["instances"][0]["run_id"] == "r1"


async def removed_task(db: Database) -> None:
    tasks = (task("one"), task("two"))
    run = await add_run(
        db, "edited", await add_dag(db, "edited", tasks=tasks), "r1", state="failed", reason="task_failure"
    )
    for index, state in enumerate(("success", "failed")):
        await add_task(db, run, index, state, try_number=1)
    async with db.transaction() as conn:
        await register_specs(conn, [DagSpec(dag_id="edited", tasks=tasks[:1])], now=NOON)


def test_a_failure_of_a_task_that_is_gone_is_cleared_with_the_newest_version(on_db: Cli) -> None:
    on_db.work(lambda db: own(db, "edited"))
    on_db.work(removed_task)

    *_, command = on_db.json("why", "edited", "r1", "two")["commands"]

    assert command == "aiosched tasks clear edited --run r1 --only-failed --newest-version"
    assert touched(on_db, command) == {("two", -1)}
