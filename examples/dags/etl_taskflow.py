"""Extract, transform, load, written as functions: each call is a task, each argument a dependency.

`transform` returns a dict with `multiple_outputs`, so that every key is a value of its own which other
tasks can take without reading the rest.
"""

import pendulum

from aiosched import dag, task

ORDERS = [
    {"id": 1, "customer": "ada", "euros": 120.50},
    {"id": 2, "customer": "grace", "euros": 80.00},
    {"id": 3, "customer": "ada", "euros": 19.95},
]


@dag(schedule="@once", start_date=pendulum.datetime(2025, 1, 1, tz="UTC"), catchup=False, tags=["example", "etl"])
def etl_taskflow():
    @task
    def extract() -> list[dict]:
        return ORDERS

    @task(multiple_outputs=True)
    def transform(orders: list[dict]) -> dict:
        customers = sorted({order["customer"] for order in orders})
        return {"total": round(sum(order["euros"] for order in orders), 2), "customers": customers}

    @task
    def load(total: float, customers: list[str]) -> str:
        line = f"{len(customers)} customers ordered for {total:.2f} euros"
        print(line)
        return line

    summary = transform(extract())
    load(summary["total"], summary["customers"])


etl_taskflow()
