"""DAGs whose tasks are mapped: over lists, results, nothing, dictionaries, in groups, with failures and skips."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, task, task_group
from airflow.sdk.exceptions import AirflowSkipException

START = datetime(2026, 1, 1, tzinfo=UTC)


@task
def numbers(size: int) -> list[int]:
    return list(range(size))


@task
def double(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    if number == 4:
        raise AirflowSkipException("four")
    return 2 * number


@task
def total(values: list[int]) -> int:
    return sum(values)


for size in (0, 2, 4, 5):
    with DAG(f"mapped_over_{size}", start_date=START, schedule=None):
        doubled = double.expand(number=numbers(size))
        total(doubled)
        doubled >> EmptyOperator(task_id="afterwards", trigger_rule="all_done")

with DAG("products_zips_and_filters", start_date=START, schedule=None):

    @task
    def add(left: int, right: int) -> int:
        return left + right

    def odd(number: int) -> int:
        if number % 2 == 0:
            raise AirflowSkipException("even")
        return number

    three = numbers(3)
    total(add.expand(left=three, right=[10, 20]))
    double.override(task_id="filtered").expand(number=three.map(odd))
    BashOperator.partial(task_id="shell").expand(bash_command=["true", "exit 99", "true"])
    add.override(task_id="pairs").expand_kwargs([{"left": 1, "right": 2}, {"left": 3, "right": 4}])

with DAG("mapped_groups", start_date=START, schedule=None):

    @task_group
    def each(number: int) -> None:
        (
            double.override(task_id="inner")(number)
            >> EmptyOperator(task_id="second")
            >> EmptyOperator(task_id="last", trigger_rule="one_failed")
        )

    each.expand(number=numbers(5)) >> EmptyOperator(task_id="after", trigger_rule="none_failed")
