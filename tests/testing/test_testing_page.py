"""The examples of docs/testing.md that use a `World` run as they stand there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from aiosched import DAG, PythonOperator
from tests.testing.world_builders import NEW_YEAR

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def sales() -> DAG:
    """That of the README, with a schedule of its own."""
    with DAG("sales", schedule="0 6 * * *", start_date=NEW_YEAR - timedelta(days=1)) as made:
        extract = PythonOperator(task_id="extract", python_callable=print)
        extract >> PythonOperator(task_id="load", python_callable=print, retries=2)
    return made


def examples() -> dict[str, Callable[..., Awaitable[None]]]:
    """The page's asynchronous tests by name, in order."""
    found: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), found)
    return {name: value for name, value in found.items() if inspect.iscoroutinefunction(value)}


def test_there_are_examples_of_all_that_the_page_tells() -> None:
    assert len(examples()) == 4


@pytest.mark.parametrize("name", examples())
async def test_an_example_runs(name: str) -> None:
    example = examples()[name]
    wants_files = "dag_bag" in inspect.signature(example).parameters

    await (example(lambda folder: {"sales": sales()}) if wants_files else example())
