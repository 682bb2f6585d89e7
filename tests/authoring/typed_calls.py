"""What type checkers say of DAG files: functions with `@task` keep their signatures, outputs know their types.

mypy reads this file with all others (`make lint`), and objects to each comment that silences nothing. Nobody runs it.
"""

from __future__ import annotations

from typing import assert_type

from aiosched import DAG, XComArg, dag, task


@task
def count(name: str, times: int = 1) -> int:
    return len(name) * times


@task(retries=3)
async def fetch(url: str) -> dict[str, int]:
    return {url: 1}


@task.branch
def choose(rows: int) -> str:
    return "many" if rows else "none"


@task
def total(counts: list[int], ti: object = None) -> int:
    return sum(counts)


@dag(schedule=None)
def typed() -> None:
    rows = count("a")
    assert_type(rows, XComArg[int])
    assert_type(fetch("u"), XComArg[dict[str, int]])
    assert_type(count.expand(name=["a", "b"]), XComArg[list[int]])
    count("a", times=2)
    choose(rows)
    total(count.expand(name=["a"]))
    fetch.override(task_id="other")("u") >> choose(rows)
    count(3)  # type: ignore[arg-type]
    count("a", "b")  # type: ignore[arg-type]
    count(rows, 3, 4)  # type: ignore[call-arg]
    count()  # type: ignore[call-arg]
    count(nam="a")  # type: ignore[call-arg]
    fetch(rows, 3)  # type: ignore[call-arg]
    fetch(1)  # type: ignore[arg-type]
    fetch.override(retries=1)(1)  # type: ignore[arg-type]
    choose("many")  # type: ignore[arg-type]
    total("abc")  # type: ignore[arg-type]


assert_type(typed(), DAG)
