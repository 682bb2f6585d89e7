"""One DAG starts another and waits for it, and a third task waits for a single task of that run.

`TriggerDagRunOperator` creates the run, with its `conf`; `wait_for_completion` with `deferrable=True` waits without a
worker. `ExternalTaskSensor` waits for a task with the same logical date. The other DAG has no schedule of its own.
"""

import pendulum

from aiosched import DAG, ExternalTaskSensor, TriggerDagRunOperator, task

START = pendulum.datetime(2025, 1, 1, tz="UTC")

with DAG(
    "trigger_dag_target",
    schedule=None,
    start_date=START,
    catchup=False,
    params={"city": "Utrecht"},
    tags=["example"],
):

    @task
    def measure(params=None) -> str:
        return f"12 degrees in {params['city']}"

    @task
    def publish(text: str) -> None:
        print(text)

    publish(measure())


with DAG("trigger_dag", schedule="@once", start_date=START, catchup=False, tags=["example"]):
    start = TriggerDagRunOperator(
        task_id="start",
        trigger_dag_id="trigger_dag_target",
        logical_date="{{ ts }}",
        conf={"city": "Delft"},
        wait_for_completion=True,
        deferrable=True,
        poke_interval=0.5,
    )
    measured = ExternalTaskSensor(
        task_id="measured",
        external_dag_id="trigger_dag_target",
        external_task_id="measure",
        failed_states=["failed"],
        poke_interval=0.5,
        timeout=120,
    )

    @task
    def report(run_id: str) -> str:
        return f"the run {run_id} is over"

    measured >> report(start.output["trigger_run_id"])
