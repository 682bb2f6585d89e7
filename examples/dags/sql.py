"""Run SQL and pass its result on: here on a SQLite file, in real life by the id of a connection.

Several statements are one transaction. `:name` is filled from `parameters`; the rows of the last statement are the
task's result. PostgreSQL is reached by its async driver, every other database that SQLAlchemy knows in a thread.
"""

import tempfile
from pathlib import Path

import pendulum

from aiosched import DAG, SQLExecuteQueryOperator, task

FILE = f"{tempfile.gettempdir()}/aiosched-example-sql-{{{{ run_id }}}}.db"

with DAG(
    "sql",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    default_args={"conn_id": f"sqlite:///{FILE}"},
    tags=["example"],
):
    load = SQLExecuteQueryOperator(
        task_id="load",
        sql=[
            "CREATE TABLE IF NOT EXISTS orders (customer TEXT, euros REAL, day TEXT)",
            "DELETE FROM orders WHERE day = :day",
            "INSERT INTO orders VALUES ('ada', 120.5, :day), ('grace', 80, :day), ('ada', 19.95, :day)",
        ],
        parameters={"day": "{{ ds }}"},
    )
    sums = SQLExecuteQueryOperator(
        task_id="sums", sql="SELECT customer, sum(euros) FROM orders GROUP BY customer ORDER BY customer"
    )

    @task
    def report(rows: list, file: str) -> str:
        Path(file).unlink()
        return ", ".join(f"{customer}: {euros:.2f}" for customer, euros in rows)

    load >> sums
    report(sums.output, FILE)
