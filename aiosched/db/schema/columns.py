"""The basis of all tables: the metadata with its naming convention for constraints, and common columns."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import BigInteger, Column, DateTime, Identity, Integer, MetaData, SmallInteger, func

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def one_of(column: str, values: Any) -> str:
    return f"{column} IN ({', '.join(repr(str(v)) for v in values)})"


def instant(name: str, **kwargs: Any) -> Column[Any]:
    return Column(name, DateTime(timezone=True), **kwargs)


def identity() -> Column[Any]:
    return Column("id", BigInteger, Identity(always=True), primary_key=True)


def created_at() -> Column[Any]:
    return instant("created_at", nullable=False, server_default=func.now())


def partition(*, nullable: bool = False) -> Column[Any]:
    return Column("partition", SmallInteger, nullable=nullable)


def task_key(*, try_number: bool) -> list[Column[Any]]:
    columns = [
        Column("run_id", BigInteger, primary_key=True),  # dag_run.id
        Column("task_index", Integer, primary_key=True),
        Column("map_index", Integer, primary_key=True),
    ]
    return [*columns, Column("try_number", SmallInteger, primary_key=True)] if try_number else columns
