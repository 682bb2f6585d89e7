"""A DAG that people trigger with choices, of every kind of field."""

import pendulum

from aiosched import DAG, EmptyOperator, Param

with DAG(
    "choices",
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    tags=["forms"],
    params={
        "city": Param("Amsterdam", type="string", minLength=2, description="Where to look"),
        "days": Param(7, type="integer", minimum=1, maximum=14),
        "unit": Param("celsius", enum=["celsius", "fahrenheit"]),
        "loud": Param(False, type="boolean"),
        "fresh": Param(None, type=["boolean", "null"]),
        "at": Param("02:30:00+01:00", type="string", format="time"),
        "letter": Param("Dear all,\nhello!", type="string"),
        "names": Param(["ada"], type="array", items={"type": "string"}),
        "more": Param({"a": 1}, type="object"),
        "until": Param("2026-11-20", type="string", format="date"),
    },
):
    EmptyOperator(task_id="show")
