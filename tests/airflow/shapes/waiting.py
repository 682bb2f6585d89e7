"""DAGs that wait: sensors in both modes, with soft failures and results; and values that tasks hand on."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.sensors.python import PythonSensor
from airflow.sdk import DAG, Asset, Param, PokeReturnValue, task

START = datetime(2026, 1, 1, tzinfo=UTC)

with DAG("sensors", start_date=START, schedule=None):
    for mode in ("poke", "reschedule"):
        waits = {"poke_interval": 0.1, "timeout": 0.2, "mode": mode}
        PythonSensor(task_id=f"there_{mode}", python_callable=lambda: True, **waits)
        PythonSensor(task_id=f"never_{mode}", python_callable=lambda: False, **waits) >> EmptyOperator(
            task_id=f"after_{mode}"
        )
        PythonSensor(task_id=f"soft_{mode}", python_callable=lambda: False, soft_fail=True, **waits) >> EmptyOperator(
            task_id=f"skipped_{mode}"
        )

    @task.sensor(poke_interval=0.1, timeout=5)
    def found() -> PokeReturnValue:
        return PokeReturnValue(is_done=True, xcom_value=[1, 2])

    @task
    def show(value: int) -> int:
        return value

    show.expand(value=found())

with DAG("values", start_date=START, schedule=None, params={"name": Param("a", type="string")}):

    @task(multiple_outputs=True)
    def several() -> dict[str, object]:
        return {"number": 3, "text": "three"}

    @task(outlets=[Asset("made")])
    def make(number: int, ti: object = None) -> None:
        assert number == 3
        ti.xcom_push("extra", "more")  # type: ignore[attr-defined]

    make(several()["number"]) >> BashOperator(
        task_id="check",
        bash_command="test '{{ ti.xcom_pull('make', key='extra') }} {{ params.name }} {{ ds }}' = 'more a 2026-01-05'",
    )
