"""DAGs that depend on each other: by an asset, by a trigger, by a sensor, by a template."""

from datetime import timedelta

import pendulum

from aiosched import DAG, Asset, EmptyOperator, ExternalTaskSensor, TriggerDagRunOperator

START = pendulum.datetime(2026, 1, 1, tz="UTC")
STOCK = Asset("stock", uri="file:///stock", fresh_within=timedelta(days=9_000))

with DAG("link_load", schedule=None, start_date=START, tags=["linked"]):
    load = EmptyOperator(task_id="load", outlets=[STOCK])
    load >> TriggerDagRunOperator(task_id="start", trigger_dag_id="link_mail", conf={"from": "load"})

with DAG("link_report", schedule=[STOCK], start_date=START, is_paused_upon_creation=True, tags=["linked"]):
    wait = ExternalTaskSensor(task_id="wait", external_dag_id="link_mail", poke_interval=1)
    wait >> TriggerDagRunOperator(task_id="next", trigger_dag_id="{{ params.which }}")

with DAG("link_mail", schedule=None, start_date=START, tags=["linked"]):
    EmptyOperator(task_id="send")
