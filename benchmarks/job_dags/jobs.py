"""The DAGs that the ten jobs are about: one that fails at night, one that fills a pool, one that is late, and an asset.

What runs goes on until the file `end` is beside this one; each line of the file `said` becomes a line of the logs.
"""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aiosched import DAG, Asset, EmptyOperator, task

HERE = Path(__file__).parent
MIDNIGHT = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
ORDERS = Asset("orders", uri="file:///orders")
log = logging.getLogger("aiosched.task")


async def until_the_end() -> None:
    told = 0
    while not (HERE / "end").exists():
        said = (HERE / "said").read_text().splitlines()
        for line in said[told:]:
            log.info("%s", line)
        told = len(said)
        await asyncio.sleep(0.05)


with DAG(
    "sales_nightly",
    schedule="@daily",
    start_date=MIDNIGHT - timedelta(days=60),
    catchup=False,
    is_paused_upon_creation=True,
    default_args={"owner": "sales"},
):

    @task
    def load() -> None:
        raise KeyError("currency")

    EmptyOperator(task_id="extract") >> load() >> EmptyOperator(task_id="report")

with DAG("warehouse_sync", schedule=None, default_args={"owner": "warehouse"}):

    @task(pool="warehouse")
    async def copy(table: str) -> None:
        log.info("copying %s", table)
        await until_the_end()

    copy.expand(table=["customers", "orders", "products", "refunds", "shops", "stock"])

with DAG(
    "lagging",
    schedule="@daily",
    start_date=MIDNIGHT - timedelta(days=3),
    catchup=True,
    max_active_runs=1,
    default_args={"owner": "warehouse"},
):

    @task
    async def catch_up() -> None:
        await until_the_end()

    catch_up()

with DAG("order_import", schedule=None, default_args={"owner": "sales"}):
    EmptyOperator(task_id="import", outlets=[ORDERS])

with DAG("refund_report", schedule=[ORDERS], default_args={"owner": "sales"}):
    EmptyOperator(task_id="report")

with DAG("demand_forecast", schedule=[ORDERS], default_args={"owner": "planning"}):
    EmptyOperator(task_id="forecast")
