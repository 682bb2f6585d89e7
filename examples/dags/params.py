"""A run that is asked for by a person, with choices.

Params have a default and a JSON schema; what a trigger gives is checked before the run exists:

    aiosched dags trigger params -p city=Utrecht -p days=3
    aiosched dags trigger params --conf '{"days": 400}'      # refused: days is at most 14

There is no schedule, so nothing runs before it is triggered.
"""

import pendulum

from aiosched import Param, dag, task


@dag(
    schedule=None,
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    params={
        "city": Param("Amsterdam", type="string", minLength=2, description="Where to look"),
        "days": Param(7, type="integer", minimum=1, maximum=14, description="How many days ahead"),
        "unit": Param("celsius", enum=["celsius", "fahrenheit"]),
    },
    tags=["example"],
)
def params():
    @task
    def forecast(params=None, dag_run=None) -> list[str]:
        print(f"asked with {dag_run.conf}")
        return [f"{params['city']}, day {day + 1}: 21 {params['unit']}" for day in range(params["days"])]

    @task
    def show(lines: list[str]) -> int:
        print("\n".join(lines))
        return len(lines)

    show(forecast())


params()
