"""What `test_ten_more_jobs` asks about, apart from the DAGs of other tests."""

import pendulum

from aiosched import DAG, EmptyOperator, HITLOperator

with DAG("duty_asking", schedule=None):
    HITLOperator(task_id="tea", subject="Which tea?", options=["green", "black"])

with DAG(
    "duty_daily",
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    is_paused_upon_creation=True,
):
    EmptyOperator(task_id="sweep")
