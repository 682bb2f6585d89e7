"""The table of the announcement of Airflow's Scheduler 2.0, with ours beside it.

Theirs are figures of other machines and of tasks that are processes; ours are measured here, now, with plain
functions in the local executor's worker processes, which is the nearest that we have.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

import uvloop

from benchmarks import measure
from benchmarks.figures import Finding
from benchmarks.fleet import fleet
from benchmarks.report import Result
from benchmarks.run import run
from benchmarks.shapes import SHAPES

DAGS: Final = 5000


@dataclass(frozen=True)
class Published:
    """Seconds of total task lag for 1,000 tasks, of Airflow 1.10 and of 2.0."""

    shape: str
    before: float
    after: float


LAGS: Final = (
    Published("linear-100x10", 200, 11.6),
    Published("linear-10x100", 144, 14.3),
    Published("tree-100x10", 200, 12),
)
TASKS_A_MINUTE: Final = {1: 285, 2: 541, 3: 698}  # of 5,000 DAGs with 10 parallel tasks, by schedulers


def main(size: int | None = None) -> int:
    """Measure and print the two tables in Markdown; `size` is the number of DAGs of the second one.

    Exit code 1 when a verification failed.
    """
    dags = DAGS if size is None else size
    print(measure.machine())
    results = uvloop.run(_lags())
    findings = [uvloop.run(_throughput(schedulers, dags)) for schedulers in TASKS_A_MINUTE]
    print(lag_table(results), throughput_table(findings, dags), sep="\n\n")
    problems = [p for result in results for p in result.problems] + [p for found in findings for p in found.problems]
    print(*problems, sep="\n", file=sys.stderr)
    return 1 if problems else 0


async def _lags() -> list[Result]:
    return [await run(SHAPES[published.shape], executor="local", kind="sync") for published in LAGS]


async def _throughput(schedulers: int, dags: int) -> Finding:
    return await fleet(SHAPES["parallel-5000x10"].resized(dags), schedulers, 900.0, executor="local", kind="sync")


def lag_table(results: list[Result]) -> str:
    """1,000 tasks: their total task lag; ours over all tasks, and of one DAG on average; from first run to last end."""
    head = (
        "| 1,000 tasks | Airflow 1.10: total lag | Airflow 2.0: total lag "
        "| aiosched: lag of all tasks | of a DAG | p50 of a task | makespan |"
    )
    rows = [
        f"| {published.shape} | {published.before:g} s | {published.after:g} s | {result.lag.total:.1f} s "
        f"| {result.lag.total / SHAPES[published.shape].dags:.3f} s | {result.lag.p50 * 1000:.1f} ms "
        f"| {result.makespan:.2f} s |"
        for published, result in zip(LAGS, results, strict=True)
    ]
    return "\n".join([head, "| --- | ---: | ---: | ---: | ---: | ---: | ---: |", *rows])


def throughput_table(findings: list[Finding], dags: int) -> str:
    """DAGs of 10 parallel tasks: tasks a minute by the number of schedulers."""
    head = f"| schedulers | Airflow 2.0, 5,000 DAGs: tasks a minute | aiosched, {dags:,} DAGs: tasks a minute |"
    rows = [
        f"| {schedulers} | {published} | {_tasks_a_minute(finding):,.0f} |"
        for (schedulers, published), finding in zip(TASKS_A_MINUTE.items(), findings, strict=True)
    ]
    return "\n".join([head, "| ---: | ---: | ---: |", *rows])


def _tasks_a_minute(finding: Finding) -> float:
    return next(figure.value for figure in finding.figures if figure.unit == "tasks a minute")
