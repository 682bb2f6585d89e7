"""The tables of figures over time: a row a scheduler and minute, rolled up to a row a scheduler and hour.

Histograms are counts (core/figures/histograms.py) without zeros at the end. States of an hour are means over its
`minutes`. `pools` is an object of `[slots, used, queued, waiting]` by pool: slots and used ones of the whole fleet at
the end of the minute, the rest of this scheduler. Pools without any are not there; NULL stands for not known.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Integer, SmallInteger, Table, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, DOUBLE_PRECISION, JSONB

from aiosched.db.schema.columns import instant, metadata


def _figures() -> list[Column[Any]]:
    counts = text("'{}'")
    return [
        Column("minutes", SmallInteger, nullable=False, server_default=text("1")),  # that the row covers
        Column("ended", BigInteger, nullable=False),
        Column("task_lag", ARRAY(Integer), nullable=False, server_default=counts),
        Column("commits", ARRAY(Integer), nullable=False, server_default=counts),
        Column("loop_lag", ARRAY(Integer), nullable=False, server_default=counts),
        Column("waiting", DOUBLE_PRECISION, nullable=False),
        Column("queued", DOUBLE_PRECISION, nullable=False),
        Column("running", DOUBLE_PRECISION, nullable=False),
        Column("memory", DOUBLE_PRECISION),  # bytes
        Column("parsing", DOUBLE_PRECISION, nullable=False),  # seconds that parsing of files took
        Column("pools", JSONB),
    ]


figures_minute = Table(
    "figures_minute",
    metadata,
    instant("at", primary_key=True),
    Column("incarnation", BigInteger, primary_key=True, autoincrement=False),
    Column("scheduler", Text, nullable=False),  # its name
    *_figures(),
)

figures_hour = Table(
    "figures_hour",
    metadata,
    instant("at", primary_key=True),
    Column("scheduler", Text, primary_key=True),
    *_figures(),
)
