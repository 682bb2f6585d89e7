"""What is true of rows and memory whenever a scheduler rests: the semantics reference, section 35."""

from __future__ import annotations

from aiosched.core.slots.allocation import DagRoom
from aiosched.core.values.states import ACTIVE_FOR_TASK_LIMITS, HOLDING_SLOT, RunState, TaskState
from aiosched.db.server.engine import Database
from aiosched.db.statements.runs import in_rows
from aiosched.scheduler.session.session import Session

_WRONG_POOLS = """
    SELECT p.name, p.used, coalesce(u.used, 0)
      FROM pool AS p
      LEFT JOIN (
        SELECT coalesce(t.task ->> 'pool', 'default_pool') AS name,
               sum(coalesce((t.task ->> 'pool_slots')::int, 1)) AS used
          FROM task_instance AS ti
          JOIN dag_run AS r ON r.id = ti.run_id
          JOIN dag_version AS v ON v.id = r.version_id
         CROSS JOIN LATERAL (SELECT v.spec -> 'tasks' -> ti.task_index) AS t (task)
          LEFT JOIN deferred_trigger AS d
            ON (d.run_id, d.task_index, d.map_index) = (ti.run_id, ti.task_index, ti.map_index)
         WHERE ti.state IN ('queued', 'running', 'restarting', 'shutdown') OR (ti.state = 'deferred' AND d.holds_pool)
         GROUP BY 1
      ) AS u ON u.name = p.name
     WHERE p.used <> coalesce(u.used, 0)
"""

_UNFINISHED_IN_FINISHED_RUNS = """
    SELECT r.dag_id, r.run_id, ti.task_index, ti.state
      FROM task_instance AS ti JOIN dag_run AS r ON r.id = ti.run_id
     WHERE r.state IN ('success', 'failed') AND coalesce(r.reason, '') <> 'all_tasks_deadlocked'
       AND NOT (r.backfill_id IS NOT NULL AND r.start_date IS NULL AND r.reason = 'cancelled') -- 29.1
       AND (ti.state IS NULL
            OR ti.state NOT IN ('success', 'failed', 'skipped', 'upstream_failed', 'removed'))
"""


_WRONG_DEFERRALS = """
    SELECT run_id, task_index, map_index, ti.state, d.event, d.error
      FROM task_instance AS ti FULL JOIN deferred_trigger AS d USING (run_id, task_index, map_index)
     WHERE CASE WHEN d.classpath IS NULL THEN ti.state = 'deferred'
                WHEN d.event IS NULL AND d.error IS NULL THEN ti.state IS DISTINCT FROM 'deferred'
                ELSE coalesce(ti.state, '') NOT IN ('scheduled', 'queued', 'running') END
"""


async def assert_consistent(db: Database) -> None:
    """What is true of the rows at every instant (section 35).

    Pool use, no unfinished task in a finished run, and deferrals exactly where somebody waits or goes on.
    """
    async with db.acquire() as conn:
        pools = await conn.fetch(_WRONG_POOLS)
        assert not pools, f"pool.used is not what queued and running instances use: {list(map(tuple, pools))}"
        deferrals = await conn.fetch(_WRONG_DEFERRALS)
        assert not deferrals, f"deferrals do not match states: {list(map(tuple, deferrals))}"
        left = await conn.fetch(_UNFINISHED_IN_FINISHED_RUNS)
        started = await conn.fetch("SELECT run_id FROM dag_run WHERE partition < 0 AND state IN ('running', 'success')")
        assert not started, f"runs that started before all their instances were stored: {list(map(tuple, started))}"
        assert not left, f"finished runs with unfinished instances: {list(map(tuple, left))}"


async def assert_memory_is_a_copy(session: Session, db: Database) -> None:
    """The boards hold exactly the running runs of the owned partitions, instance by instance as stored."""
    cache = session.cache
    async with db.acquire() as conn:
        stored_runs = await conn.fetch(
            "SELECT id, state, partition < 0 AS incomplete FROM dag_run"
            " WHERE state IN ('queued', 'running') AND partition = ANY($1::smallint[])",
            in_rows(cache.partitions),
        )
        rows = await conn.fetch(
            "SELECT run_id, task_index, map_index, state, try_number, next_at FROM task_instance"
            " WHERE run_id = ANY($1::bigint[])",
            list(cache.boards),
        )
    in_memory = dict.fromkeys(cache.boards, (RunState.RUNNING, False))
    in_memory |= {
        run.key: (RunState.QUEUED, run.is_incomplete) for dag in cache.dags.values() for run in dag.runs.queued
    }
    assert {row["id"]: (row["state"], row["incomplete"]) for row in stored_runs} == in_memory
    stored = {
        (row["run_id"], row["task_index"], row["map_index"]): (row["state"], row["try_number"], row["next_at"])
        for row in rows
    }
    held = {
        (key, i.task, i.map_index): (i.state.stored, i.try_number, i.next_at)
        for key, board in cache.boards.items()
        for i in board
    }
    started = {key for key, (state, *_) in held.items() if state == "running" and stored[key][0] == "queued"}
    for key in started:  # a start is stored lazily
        held[key] = ("queued", *held[key][1:])
    assert stored == held
    _assert_rooms_are_right(session)


def _assert_rooms_are_right(session: Session) -> None:
    """The counts that limits are checked with are those of the boards; whoever is scheduled waits somewhere."""
    cache = session.cache
    for owned in cache.dags.values():
        active: dict[int, int] = {}
        tasks: dict[str, int] = dict.fromkeys(owned.room.tasks, 0)
        for board in owned.runs.running.values():
            for instance in board:
                if instance.state in HOLDING_SLOT:
                    active[board.run.key] = active.get(board.run.key, 0) + 1
                task_id = board.graph.task_ids[instance.task]
                if instance.state in ACTIVE_FOR_TASK_LIMITS and task_id in tasks:
                    tasks[task_id] += 1
                if instance.state is TaskState.SCHEDULED:
                    waits = board.key(instance) in cache.waiting
                    assert waits != (instance in owned.held_back), "a scheduled instance waits nowhere, or twice"
        room: DagRoom = owned.room
        assert (room.active, room.by_run) == (sum(active.values()), active)
        assert {task_id: each.active for task_id, each in room.tasks.items()} == tasks
