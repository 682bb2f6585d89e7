"""Wrong and odd content for every place that content can come from, made by dice.

Every function in `POISONS` makes one. Rows are changed only where they belong to victims: DAGs that nobody minds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import asyncpg

from tests.faults.campaign.naming import Mark

VICTIMS: Final = 12
POOL: Final = "poisoned"  # which only victims use
_LONGEST_PLACE: Final = 300  # characters that a report shows of a poison

TEXTS: Final = (
    "", " ", "a/b", "../../etc/passwd", "x" * 300, "\u202e", "é" * 90, "'; DROP TABLE dag; --", "{{ 1 / 0 }}", "%s%n",
    "null", "-1", "99999999999999999999",
)  # fmt: skip
NUMBERS: Final = (-1, 0, 1, 2**15 - 1, 2**31 - 1)
DATES: Final = (
    "0001-01-01", "1900-02-28", "9999-12-31", "infinity", "-infinity", "20000-01-01", "294276-12-31", "4000-01-01 BC",
)  # fmt: skip
DOCUMENTS: Final = (
    "null", "[]", "{}", "1e400", '""', "[" * 400 + "]" * 400, json.dumps({"a": "b" * 100_000}), '{"a": 1, "a": 2}',
    '{"unknown": true}', "-1", '"\\ud800"', '"\\u0000"',
)  # fmt: skip

# What loading decodes for many DAGs at once: readable, and strange.
READABLE: Final = (
    "null",
    "[]",
    "{}",
    '""',
    "-1",
    '{"a": 1, "a": 2}',
    json.dumps({"a": "b" * 100_000}),
    "[" * 90 + "]" * 90,
)


@dataclass
class Poisoner:
    """What poisons need: dice, a connection, the folder of the round, and a number of their own."""

    dice: random.Random
    conn: asyncpg.Connection[asyncpg.Record]
    folder: Path
    number: int = 0
    marks: list[Mark] = field(default_factory=list)  # what was stored

    def mark(
        self, place: str, *, dag_id: str | None = None, file: str | None = None, command: int | None = None
    ) -> None:
        """Note down what the poison of this number has put where."""
        self.marks.append(Mark(self.number, place[:_LONGEST_PLACE], datetime.now(UTC), dag_id, file, command))

    def victim(self) -> str:
        return f"victim{self.dice.randrange(VICTIMS):02}"

    def write(self, name: str, content: str | bytes) -> None:
        data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        file = f"poison_{name}_{self.dice.randrange(5)}.py"
        (self.folder / "dags" / file).write_bytes(data)
        self.mark(f"{file}: {content[-200:]!r}", file=file)


Poison = Callable[[Poisoner], Awaitable[None]]


# -- files ------------------------------------------------------------------------------------------------


def _file_with(p: Poisoner, name: str, *lines: str) -> None:
    head = ["from datetime import datetime, timedelta", "from aiosched import DAG, Asset, task", f"N = {p.number}"]
    p.write(name, "\n".join([*head, *lines]) + "\n")


_DAG: Final = "with DAG({}, schedule=None{}):\n    @task\n    async def a():\n        pass\n    a()"


async def file_of_bytes(p: Poisoner) -> None:
    """A file that is no Python."""
    p.write(
        "bytes",
        p.dice.choice([p.dice.randbytes(3000), b"\0" * 100, b"def (:\n", b"\xff\xfe" + b"DAG", b"DAG aiosched("]),
    )


async def file_that_fails(p: Poisoner) -> None:
    """An import that raises, ends its process, or does not end."""
    wrong = ("1 / 0", "raise SystemExit(3)", "import os; os._exit(3)", "while True: pass", "raise KeyboardInterrupt",
             "def f(): f()\nf()", "import time; time.sleep(60)", "raise BaseException('\\ud800\\0')",
             "x = 'y' * 10**8")  # fmt: skip
    _file_with(p, "fails", p.dice.choice(wrong))


async def file_of_odd_dags(p: Poisoner) -> None:
    """Ids, params, schedules and structures that DAGs should not have."""
    deep = "x = []\nfor _ in range(400):\n    x = [x]"
    text = ascii(p.dice.choice([*TEXTS, "\ud800", "nul\0", "victim01", "healthy001"]))
    odd = (
        _DAG.format(text, ""),
        _DAG.format("'odd'", f", tags=[{text}]"),
        _DAG.format("'odd'", f", description={text}"),
        deep + "\n" + _DAG.format("'odd'", ", params={'x': x}"),
        _DAG.format("'odd'", ", max_active_runs=-3, max_active_tasks=0"),
        _DAG.format("'odd'", ", start_date=datetime.max, catchup=True"),
        "with DAG('odd', schedule='61 * * * *'): pass",
        ("with DAG('odd', schedule=timedelta(microseconds=1), start_date=datetime(1, 1, 1), catchup=True, "
        "is_paused_upon_creation=True): pass"),
        ("from aiosched import EmptyOperator\nwith DAG('odd', schedule=None):\n"
        "    a, b = EmptyOperator(task_id='a'), EmptyOperator(task_id='b')\n    a >> b >> a"),
        ("from aiosched import EmptyOperator\nwith DAG('big', schedule=None):\n"
        "    for n in range(3000): EmptyOperator(task_id=f't{n}')"),
    )  # fmt: skip
    _file_with(p, "odd", p.dice.choice(odd))


async def file_of_logs(p: Poisoner) -> None:
    """Files among the logs that nobody has written as logs."""
    folder = p.folder / "logs" / p.victim() / p.dice.choice(["r", "scheduled__x", "\udcff"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.log").write_bytes(p.dice.choice([p.dice.randbytes(5000), b"x" * 500_000, b"{" * 1000, b""]))


# -- rows -------------------------------------------------------------------------------------------------

# Columns of rows of victims, by table: what they may get. Only what a constraint accepts is stored.
COLUMNS: Final[Mapping[str, Mapping[str, tuple[Any, ...]]]] = MappingProxyType(
    {
        "dag": {
            "max_active_runs": NUMBERS, "max_active_tasks": NUMBERS, "schedule": TEXTS, "description": TEXTS,
            "is_paused": ("true", "false"), "is_stale": ("true",), "has_import_errors": ("true",),
            "next_dagrun": DATES, "next_dagrun_create_after": DATES, "asset_scheduled_at": DATES,
            "version_id": (-1, 0, 2**62),
        },
        "dag_run": {
            "run_type": ("manual", "backfill", "asset_triggered"), "state": ("queued", "running", "success"),
            "run_after": DATES, "start_date": DATES, "queued_at": DATES, "end_date": DATES, "conf": READABLE,
            "clear_number": NUMBERS, "backfill_id": (-1, 2**62), "backfill_order": NUMBERS, "reason": TEXTS,
            "created_by": (-1, 2**62),
        },
        "task_instance": {
            "state": ("queued", "running", "deferred", "scheduled", "up_for_retry", "up_for_reschedule", "removed",
                      None),
            "try_number": (0, 1, 7, 2**15 - 1), "max_tries": (0, 2**15 - 1), "losses": (0, 2, 2**15 - 1),
            "queued_by": (-1, 0, 2**62, None), "scheduled_at": DATES, "start_date": (*DATES, None), "next_at": DATES,
            "queued_at": (*DATES, None), "reason": TEXTS,
        },
        "xcom": {"value": DOCUMENTS},
        "task_try": {"state": TEXTS, "reason": TEXTS, "start_date": DATES},
        "deadline": {"deadline_time": DATES, "deadline_index": (-1, 99)},
        "callback_outbox": {"kind": TEXTS, "attempts": (-5, 2**15 - 1), "deadline_index": NUMBERS},
    }
)  # fmt: skip
_OF_RUNS: Final = frozenset({"task_instance", "xcom", "task_try", "deadline", "callback_outbox"})


async def row_of_a_victim(p: Poisoner) -> None:
    """One column of one row gets a value of another time."""
    table = p.dice.choice(sorted(COLUMNS))
    column = p.dice.choice(sorted(COLUMNS[table]))
    value, victim = p.dice.choice(COLUMNS[table][column]), p.victim()
    runs = f"run_id IN (SELECT id FROM dag_run WHERE dag_id = '{victim}' ORDER BY id DESC LIMIT 2)"
    ids = f"id IN (SELECT id FROM dag_run WHERE dag_id = '{victim}' ORDER BY id DESC LIMIT 1)"
    where = runs if table in _OF_RUNS else ids if table == "dag_run" else f"dag_id = '{victim}'"
    stored = await p.conn.execute(f"UPDATE {table} SET {column} = {_literal(value)} WHERE {where}")
    if stored != "UPDATE 0":
        p.mark(f"{table}.{column} = {_literal(value)}", dag_id=victim)


def _literal(value: object) -> str:
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


async def spec_of_a_victim(p: Poisoner) -> None:
    """The stored DAG is one of another version, or broken."""
    wrong = (
        "spec::jsonb - 'tasks'", "jsonb_set(spec::jsonb, '{timetable}', '{\"kind\": \"lunar\"}')",
        "jsonb_set(spec::jsonb, '{tasks,0,trigger_rule}', '\"some\"')",
        "jsonb_set(spec::jsonb, '{tasks,0,upstream}', '[\"nobody\"]')",
        "jsonb_set(spec::jsonb, '{tasks,0,weight_rule}', '\"x\"')",
        "jsonb_set(spec::jsonb, '{tasks,0,pool_slots}', '-4')",
        "jsonb_set(spec::jsonb, '{tasks,0,retries}', '1000000')",
        "jsonb_set(spec::jsonb, '{tasks,0,retry_delay}', '1e300')",
        "jsonb_set(spec::jsonb, '{tasks,0,mapping}', '{\"inputs\": [{\"kind\": \"lunar\"}]}', true)",
        "jsonb_set(spec::jsonb, '{max_active_runs}', '-1', true)",
        "jsonb_set(spec::jsonb, '{max_active_tasks}', '\"many\"', true)",
        "jsonb_set(spec::jsonb, '{dagrun_timeout}', '1e308', true)",
        "jsonb_set(spec::jsonb, '{from_the_future}', '{\"a\": 1}', true)",
        "'null'::jsonb", "'[]'::jsonb", f"'{'[' * 300}{']' * 300}'::jsonb",
    )  # fmt: skip
    victim = p.victim()
    spec = p.dice.choice(wrong)
    stored = await p.conn.execute(
        f"UPDATE dag_version SET spec = ({spec})::json WHERE dag_id = $1 AND json_typeof(spec) = 'object'", victim
    )
    if stored != "UPDATE 0":
        p.mark(spec, dag_id=victim)
    if p.dice.random() < 0.5:  # parsing mends it
        file = p.folder / "dags" / f"{victim}.py"
        file.write_text(file.read_text() + f"# {p.number}\n")


async def new_row(p: Poisoner) -> None:
    """Rows that refer to what does not exist, and reports, callbacks, queue rows and secrets that nobody has made."""
    victim, document = p.victim(), p.dice.choice(DOCUMENTS)
    run = p.dice.choice(["-1", "9223372036854775807", f"(SELECT max(id) FROM dag_run WHERE dag_id = '{victim}')"])
    at, text = p.dice.choice(DATES), _literal(p.dice.choice(TEXTS))
    part = f"coalesce((SELECT partition FROM dag WHERE dag_id = '{victim}'), 0)"
    key, number = p.dice.choice([0, 1, 999, 2**31 - 1]), p.dice.choice([-1, 0, 1, 2**15 - 1])
    known = _literal(p.dice.choice(["success", "failed", "lost", "triggered", "skipped"]))
    outcome = _literal(p.dice.choice(["success", "failed", "lost", "triggered", "deferred", "started", "lunar", ""]))
    xcoms = [[p.dice.choice(TEXTS), document]] * p.dice.randrange(3)
    conf, doc = _literal(p.dice.choice(READABLE)), _literal(document)
    rows = (
        f"""task_report (partition, run_id, task_index, map_index, try_number, outcome, body, queued_by)
            SELECT {part}, r, {key}, -1, {number}, {outcome}, json_build_object(
                       'key', json_build_array(r, {key}, -1, {number}), 'outcome', {known},
                       'at', '9999-12-31T00:00:00Z', 'xcoms', {_literal(json.dumps(xcoms))}::json),
                   {p.dice.choice(["NULL", "1", "-1"])} FROM (SELECT {run}::bigint) AS run (r)""",
        f"task_instance (run_id, task_index, map_index, state) VALUES ({run}, {key}, {number}, 'running')",
        f"xcom (run_id, task_index, map_index, key, value) VALUES ({run}, {key}, {number}, {text}, {doc})",
        f"""deferred_trigger (run_id, task_index, map_index, classpath, kwargs, next_method, timeout_at)
            VALUES ({run}, {key}, -1, {text}, {doc}, {text}, '{at}')""",
        f"""callback_outbox (partition, kind, dag_id, run_id, task_id, reason)
            VALUES ({part}, {text}, '{victim}', {run}, {text}, {text})""",
        f"deadline (run_id, deadline_index, partition, deadline_time) VALUES ({run}, {key}, {part}, '{at}')",
        f"""asset_queue (dag_id, asset_id, partition, first_at, newest_at)
            SELECT '{victim}', id, {part}, '{at}', '{at}' FROM asset LIMIT 1""",
        f"""asset_event (asset_id, timestamp, extra, source_run_id)
            SELECT id, '{at}', {doc}, {run} FROM asset LIMIT 1""",
        f"asset (name, uri, extra) VALUES ({text}, {text}, {doc}) ON CONFLICT (name) DO NOTHING",
        f"""asset_reference (dag_id, role, kind, name, task_id, watchers)
            VALUES ('{victim}', 'schedule', 'asset', {text}, '', '[]') ON CONFLICT DO NOTHING""",
        f"variable (key, value) VALUES ({text}, {text}) ON CONFLICT DO NOTHING",
        f"connection (conn_id, conn_type, secret) VALUES ({text}, {text}, {text}) ON CONFLICT DO NOTHING",
        f"""backfill (dag_id, partition, from_date, to_date, max_active_runs, conf)
            VALUES ('{victim}', {part}, '{at}', '{at}', {number}, {doc})""",
        f"""dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after, conf,
                     logical_date)
            SELECT '{victim}', 'p{p.number}', {part}, max(id), 'manual', {text}, 'queued', '{at}', {conf}, '{at}'
              FROM dag_version""",
        f"""sla_miss (partition, dag_id, task_id, logical_date, missed_at)
            VALUES ({part}, '{victim}', {text}, '{at}', '{at}')""",
        f"dag (dag_id, partition, version_id) VALUES ('ghost{key}', 3, {number}) ON CONFLICT DO NOTHING",
        f"""dag_file (file, partition, dag_ids, warnings)
            VALUES ({text}, 5, ARRAY[{text}], ARRAY[{text}]) ON CONFLICT DO NOTHING""",
    )
    row = p.dice.choice(rows)
    if await p.conn.execute(f"INSERT INTO {row}") != "INSERT 0 0":
        p.mark(" ".join(row.split()), dag_id=victim if victim in row else None)


async def pool_of_victims(p: Poisoner) -> None:
    """A pool whose figures are wrong."""
    column, value = p.dice.choice(
        [("used", 2**31 - 1), ("used", 0), ("slots", -1), ("slots", 2**31 - 1), ("slots", 0)]
    )  # fmt: skip
    await p.conn.execute(f"UPDATE pool SET {column} = {_literal(value)} WHERE name = '{POOL}'")
    p.mark(f"pool.{column} = {value}")


VERBS: Final = (
    "trigger", "pause", "unpause", "cancel_run", "clear", "mark_tasks", "mark_run", "set_note", "backfill_create",
    "backfill_pause", "backfill_cancel", "emit_asset", "release_dag", "continue_schedule", "explode", "", "TRIGGER",
)  # fmt: skip


async def request(p: Poisoner) -> None:
    """A request of unknown kind, or with arguments that make no sense."""
    values: list[Any] = [
        None,
        True,
        -1,
        2**70,
        1e300,
        *TEXTS,
        [],
        [None],
        {},
        {"a": {}},
        "2026-01-01",
        "9999-12-31T23:59:59Z",
    ]
    names = ("run_id", "run_ids", "conf", "logical_date", "run_after", "task_ids", "state", "from", "to", "id", "name",
             "extra", "note", "map_index", "pattern", "max_active_runs", "unknown", "past", "newest_version",
             "rerun")  # fmt: skip
    args = {name: p.dice.choice(values) for name in p.dice.sample(names, p.dice.randrange(5))}
    document = p.dice.choice([json.dumps(args)] * 4 + list(DOCUMENTS))
    dag_id = p.dice.choice([p.victim()] * 6 + [None, "nobody", "x" * 300])
    verb = p.dice.choice(VERBS)
    number = await p.conn.fetchval(
        """INSERT INTO request (partition, dag_id, verb, args, requested_by)
           VALUES (coalesce((SELECT partition FROM dag WHERE dag_id = $1), 7), $1, $2, $3::text::json, 'poison')
           RETURNING id""",
        dag_id, verb, document,
    )  # fmt: skip
    p.mark(f"{verb!r} about {dag_id} with {document}", command=number)


async def mend(p: Poisoner) -> None:
    """A victim gets a new version, so that there are rows to poison."""
    file = p.folder / "dags" / f"{p.victim()}.py"
    file.write_text(file.read_text() + f"# mended {p.number}\n")


POISONS: Final[Mapping[str, tuple[Poison, int]]] = MappingProxyType(
    {
        poison.__name__: (poison, weight)
        for poison, weight in (
            (file_of_bytes, 2), (file_that_fails, 2), (file_of_odd_dags, 3), (file_of_logs, 1), (row_of_a_victim, 12),
            (spec_of_a_victim, 6), (new_row, 14), (pool_of_victims, 2), (request, 14), (mend, 2),
        )
    }
)  # fmt: skip


async def one(p: Poisoner) -> str:
    """Make one; returns its name, or `refused by PostgreSQL` if no such row can be stored."""
    p.number += 1
    name = p.dice.choices(list(POISONS), [weight for _, weight in POISONS.values()])[0]
    try:
        await POISONS[name][0](p)
    except asyncpg.PostgresError:
        return "refused by PostgreSQL"
    return name
