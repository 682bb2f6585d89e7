"""What may not get worse unnoticed: the figures that do not depend on the machine.

A limit is what was measured when it was written, and little more. Raise one only with a reason; budgets are in
docs/benchmarks.md. Calls and memory have theirs in a table, benchmarks/gates.py; imports and modules of `--help` have
their test in tests/cli/test_root.py.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pytest

from aiosched.clock import FakeClock
from benchmarks.counting import Counts
from benchmarks.gates import GATES, Gate, count
from benchmarks.history import history_of
from benchmarks.report import Result
from benchmarks.run import run
from benchmarks.shapes import Shape, linear, sized
from tests.scheduler.harness import dag, running, task

PARALLEL = Shape("parallel-100x10", 100, 10, ())


@pytest.mark.usefixtures("on_test_server")
async def test_a_task_at_load_costs_less_than_a_tenth_of_a_statement_and_only_heap_only_updates() -> None:
    result = await run(PARALLEL, executor="inline", kind="async", lead=1.0)

    assert unexpected(result) == []
    assert result.statements_per_task <= 0.1
    assert result.wal_bytes_per_task <= 760
    assert result.hot_share >= 0.995


@pytest.mark.slow
@pytest.mark.usefixtures("on_test_server")
async def test_a_task_in_a_chain_costs_one_statement() -> None:
    # Long enough that the 50 to 70 statements of a start and of the minute's upkeep weigh little.
    result = await run(Shape("chain-800", 1, 800, linear(800)), executor="inline", kind="async", lead=1.0)

    assert unexpected(result) == []
    assert result.statements_per_task <= 1.12
    assert result.wal_bytes_per_task <= 600


@pytest.mark.usefixtures("on_test_server")
@pytest.mark.parametrize(
    "gate", [GATES[0], *(pytest.param(gate, marks=pytest.mark.slow) for gate in GATES[1:])], ids=str
)
async def test_a_task_costs_so_many_calls_of_our_functions_and_leaves_so_much_memory(gate: Gate) -> None:
    small = sized(gate.shape, min(gate.shape.dags, 2), 10)
    await run(small, executor=gate.executor, kind=gate.kind, lead=0.0, watched=Counts())  # for what happens only once
    seen: list[Counts] = []
    # How reports fall together depends on what else the machine does; a change that costs more does so each time.
    while not any(gate.allows(counts) for counts in seen) and len(seen) < 3:
        counts, result = await count(gate)
        assert result.problems == ()
        seen.append(counts)

    assert gate.allows(seen[-1]), (
        f"More than allowed, {gate.calls} calls and {gate.blocks} blocks a task: "
        f"{[(counts.calls / gate.shape.total, counts.blocks / gate.shape.total) for counts in seen]}. "
        f"Compare the most frequent calls with those before your change: {seen[-1].by_function().most_common(40)}"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("on_test_server")
async def test_no_large_table_is_scanned_while_runs_come_and_go() -> None:
    shape = replace(PARALLEL, dags=20)

    result = await run(shape, executor="inline", kind="async", lead=1.0, seed=history_of(50_000))

    assert unexpected(result) == []
    assert {table: count for table, count in result.scans.items() if count} == {}


async def test_a_check_for_lost_notifications_costs_the_same_few_statements_however_many_dags_there_are(
    dsn: str, clock: FakeClock
) -> None:
    async def cost(number: int) -> int:
        """The statements of a safety poll with so many DAGs, none of them due.

        The cheapest of five: now and then one of the lease's thread falls into a poll, once a second of real time.
        """
        specs = [dag(f"d{i}", task("t"), schedule=timedelta(days=1), start_date=clock.now()) for i in range(number)]
        async with running(dsn, clock, *specs, count_statements=True) as it:
            statements = it.scheduler.db.statements
            assert statements is not None
            polls = []
            for _ in range(5):
                before = statements.total
                await it.advance(11)
                polls.append(statements.total - before)
            return min(polls)

    few, many = await cost(2), await cost(100)

    # Two are about repeated entries of the audit log, which are looked at once a minute, and two about alert rules,
    # which are looked at every 30 seconds: here each wake-up of all loops does it. One is about schedules.
    assert few <= 17
    assert many <= few + 2


WORKER = """
import aiosched.authoring.decorators.taskflow
import aiosched.executors.worker.async_worker
import aiosched.executors.worker.forkserver
import aiosched.executors.worker.worker
"""
PARSER = """
from aiosched.parsing import supervisor
supervisor._import_authoring(with_airflow=False)
"""


@pytest.mark.parametrize("imports", [WORKER, PARSER], ids=["worker", "parser"])
def test_a_process_that_runs_or_reads_dag_files_imports_no_settings_and_no_driver(imports: str) -> None:
    """A third of what its start would cost; each worker would have it in memory."""
    heavy = {"pydantic", "sqlalchemy", "asyncpg", "fastapi", "typer"}
    program = f"{imports}\nimport sys\nprint(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True).stdout

    assert heavy & set(loaded.split()) == set()


def unexpected(result: Result) -> list[str]:
    """Problems apart from a slow machine's, which reads DAGs late."""
    return [problem for problem in result.problems if "--lead" not in problem]
