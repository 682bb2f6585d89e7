"""What the pages of runs and of operations show: a long log, a failure, an expensive pool, assets, a daily schedule."""

import logging
import time
from pathlib import Path

import pendulum

from aiosched import DAG, Asset, EmptyOperator, FileSensor, task

log = logging.getLogger("aiosched.task")
START = pendulum.datetime(2026, 1, 1, tz="UTC")
REPORT = Asset("report", uri="file:///report")
FIGURES = Asset("s3://bucket/fig #1.csv")

with DAG("troubled", schedule=None, start_date=START, tags=["operations"]):

    @task
    def talk() -> dict[str, list[int]]:
        log.info("\x1b[32mgreen\x1b[0m and \x1b[1;31mbold red\x1b[0m")
        return {"rows": [1, 2, 3]}

    @task
    def divide() -> float:
        log.info("about to divide")
        return 1 / 0

    talk() >> divide() >> EmptyOperator(task_id="behind")

with DAG("held", schedule=None, start_date=START, tags=["operations"]):

    @task
    def hold(params: dict[str, str]) -> None:
        while not Path(params["until"]).exists():
            time.sleep(0.05)

    hold()  # type: ignore[call-arg]  # the context gives it

with DAG("crowded", schedule=None, start_date=START, tags=["operations"]):

    @task(pool="bridge")
    def cross(car: int) -> int:
        return car

    cross.expand(car=[1, 2, 3, 4, 5])

with DAG("throng", schedule=None, start_date=START, tags=["operations"]):

    @task(pool="standstill")
    def stand(place: int) -> int:
        return place

    stand.expand(place=list(range(130)))

with DAG("making", schedule=None, start_date=START, tags=["operations"]):
    EmptyOperator(task_id="make", outlets=[REPORT, FIGURES])

with DAG("waiting", schedule=[REPORT], start_date=START, tags=["operations"]):
    EmptyOperator(task_id="use")

with DAG("daily", schedule="@daily", start_date=START, catchup=False, tags=["operations"]):

    @task(pool="days")
    def count() -> None: ...

    count()

with DAG("deferring", schedule=None, start_date=START, tags=["operations"]):
    FileSensor(task_id="arrive", filepath="{{ params.until }}", deferrable=True, poke_interval=0.05)

with DAG("hourly", schedule="0 * * * *", start_date=START, catchup=False, tags=["operations"]):
    EmptyOperator(task_id="tick")

with DAG("nightly", schedule="@daily", start_date=START, catchup=False, tags=["operations"]):
    EmptyOperator(task_id="sweep")
