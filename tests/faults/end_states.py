"""What must be true when everything is over, whoever died meanwhile: read from rows and chronicles alone.

Source: the semantics reference, section 35.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from aiosched.core.values.messages import Attempt, AttemptKey
from tests.faults.mortal_services import Chronicle, World

# What people see in the end; not when, apart from the day. Lost tries are the only trace that a crash may leave.
_SUMMARY = {
    "runs": "SELECT dag_id, split_part(run_id, 'T', 1), state, reason, clear_number FROM dag_run ORDER BY dag_id, id",
    "instances": """
        SELECT r.dag_id, split_part(r.run_id, 'T', 1), v.spec -> 'tasks' -> ti.task_index ->> 'task_id',
               ti.map_index, ti.state
          FROM task_instance AS ti JOIN dag_run AS r ON r.id = ti.run_id JOIN dag_version AS v ON v.id = r.version_id
         ORDER BY 1, 2, 3, 4""",
    "tries": """
        SELECT r.dag_id, split_part(r.run_id, 'T', 1), t.task_index, t.map_index, t.state, count(*)
          FROM task_try AS t JOIN dag_run AS r ON r.id = t.run_id
         WHERE t.state <> 'lost' GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5""",
    "values": """
        SELECT r.dag_id, split_part(r.run_id, 'T', 1), x.task_index, x.map_index, x.key, x.value
          FROM xcom AS x JOIN dag_run AS r ON r.id = x.run_id ORDER BY 1, 2, 3, 4, 5""",
    "pools": "SELECT name, slots, used FROM pool ORDER BY name",
    "requests": "SELECT verb, args::text, state FROM request ORDER BY id",
    "backfills": "SELECT dag_id, from_date, to_date, completed_at IS NOT NULL FROM backfill ORDER BY id",
    "asset events": "SELECT extra::text FROM asset_event ORDER BY id",
    "asset events seen": """
        SELECT c.dag_id, r.run_type, e.extra::text FROM asset_consumption AS c JOIN dag_run AS r ON r.id = c.run_id
          JOIN asset_event AS e ON e.id = c.event_id ORDER BY c.event_id, c.dag_id""",
    "asset events unseen": "SELECT dag_id FROM asset_queue ORDER BY 1",
    "deferrals": "SELECT * FROM deferred_trigger",
    "callbacks left": "SELECT kind FROM callback_outbox ORDER BY 1",
    "deadlines": "SELECT r.run_id, d.missed FROM deadline AS d JOIN dag_run AS r ON r.id = d.run_id ORDER BY 1",
    "missed SLAs": "SELECT dag_id, task_id, logical_date, callback_id IS NOT NULL FROM sla_miss ORDER BY 1, 2, 3",
    "paused": "SELECT dag_id, is_paused FROM dag ORDER BY 1",
}


async def summary(it: World) -> dict[str, Any]:
    """How everything ended, as data to compare."""
    found: dict[str, Any] = {what: [tuple(row) for row in await it.fetch(query)] for what, query in _SUMMARY.items()}
    found["callbacks run"] = sorted(callbacks_run(it.chronicle))
    return found


def callbacks_run(chronicle: Chronicle) -> set[tuple[str, str, str]]:
    """(run id, kind, task id) of the callbacks that were run to their end, each once."""
    return {
        (entry.attempt.run.run_id, entry.attempt.callback.kind, entry.attempt.callback.task_id or "")
        for entry in chronicle
        if entry.what == "success" and entry.attempt is not None and entry.attempt.callback is not None
    }


def attempts_that_overlap(chronicle: Chronicle) -> list[AttemptKey]:
    """Attempts that began while another one of the same instance ran, or that were handed out twice.

    The same try goes on after it deferred or asked to be called again. What ran in a life ends with it.
    """
    running: dict[tuple[int, int, int], int] = {}
    over: set[AttemptKey] = set()
    wrong = []
    for what, life, attempt in chronicle:
        if what == "died":
            running = {instance: where for instance, where in running.items() if where != life}
        if attempt is None or attempt.trigger is not None or attempt.callback is not None:
            continue
        instance = attempt.key[:3]
        if what == "handed":
            if instance in running or attempt.key in over:
                wrong.append(attempt.key)
            running[instance] = life
            over.add(attempt.key)
        elif what != "started":
            running.pop(instance, None)
            if what in ("rescheduled", "deferred"):
                over.discard(attempt.key)
    return wrong


def run_again(it: World, allowed: frozenset[str]) -> list[tuple[AttemptKey, str]]:
    """Attempts of instances whose success was stored when their scheduler died, apart from tasks that may run again."""
    deaths, wrong = iter(it.succeeded), []
    done: set[tuple[int, int, int]] = set()
    for what, _, attempt in it.chronicle:
        if what == "died":
            done = next(deaths, set())
        elif what == "handed" and attempt is not None and attempt.key[:3] in done:
            callbacks = attempt.trigger is not None or attempt.callback is not None
            if not callbacks and attempt.task_id not in allowed:
                wrong.append((attempt.key, attempt.task_id))
    return wrong


def most_at_once(chronicle: Chronicle, slots_of: Mapping[str, tuple[str, int]]) -> Counter[str]:
    """The most pool slots that were in use at any instant, by pool; `slots_of` has (pool, slots) of tasks by id."""
    running: dict[AttemptKey, tuple[int, Attempt]] = {}
    most: Counter[str] = Counter()
    for what, life, attempt in chronicle:
        if what == "died":
            running = {key: entry for key, entry in running.items() if entry[0] != life}
        elif attempt is not None and attempt.task_id in slots_of and attempt.trigger is None:
            if what == "handed":
                running[attempt.key] = (life, attempt)
            elif what != "started":
                running.pop(attempt.key, None)
        used: Counter[str] = Counter()
        for _, each in running.values():
            pool, slots = slots_of[each.task_id]
            used[pool] += slots
        most |= used
    return most


async def of_the_dead(it: World) -> list[Any]:
    """Rows of schedulers that are not alive, and partitions that they have."""
    alive = [service.running.incarnation for service in it.services]
    return await it.fetch(
        """SELECT incarnation FROM scheduler WHERE incarnation <> ALL($1::bigint[])
           UNION ALL SELECT incarnation FROM partition_lease WHERE incarnation <> ALL($1::bigint[])""",
        alive,
    )
