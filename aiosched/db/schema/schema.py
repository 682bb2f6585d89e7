"""The tables (tables.py) as SQLAlchemy metadata, for Alembic and for queries that are put together."""

from __future__ import annotations

import re
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from aiosched.db.schema import tables
from aiosched.db.schema.table import Check, Index, Table, Unique

metadata: Final = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_TYPES: Final[dict[str, Any]] = {
    "text": sa.Text(),
    "text[]": postgresql.ARRAY(sa.Text()),
    "boolean": sa.Boolean(),
    "smallint": sa.SmallInteger(),
    "smallserial": sa.SmallInteger(),
    "int": sa.Integer(),
    "int[]": postgresql.ARRAY(sa.Integer()),
    "bigint": sa.BigInteger(),
    "real": sa.REAL(),
    "real[]": postgresql.ARRAY(sa.REAL()),
    "float8": postgresql.DOUBLE_PRECISION(),
    "timestamptz": sa.DateTime(timezone=True),
    "json": sa.JSON(),
    "jsonb": postgresql.JSONB(),
    "bytea": sa.LargeBinary(),
    "uuid": sa.Uuid(),
}
_DEFINITION: Final = re.compile(
    r"(?P<type>\S+)(?P<identity> GENERATED ALWAYS AS IDENTITY)?(?P<key> PRIMARY KEY)?(?P<filled> NOT NULL)?"
    r"(?: DEFAULT (?P<default>\S+))?(?P<unique> UNIQUE)?"
    r"(?: REFERENCES (?P<table>\w+) \((?P<column>\w+)\)(?: ON DELETE (?P<then>\w+))?)?"
)


def _column(name: str, definition: str) -> sa.Column[Any]:
    found = _DEFINITION.fullmatch(definition)
    assert found is not None, f"{name}: {definition}"
    more: list[Any] = []
    if found["identity"]:
        more.append(sa.Identity(always=True))
    if found["table"]:
        more.append(sa.ForeignKey(f"{found['table']}.{found['column']}", ondelete=found["then"]))
    return sa.Column(
        name,
        _TYPES[found["type"]],
        *more,
        primary_key=found["key"] is not None,
        autoincrement="auto" if found["identity"] or found["type"] == "smallserial" else False,
        nullable=found["key"] is None and found["filled"] is None,
        unique=found["unique"] is not None or None,
        server_default=None if found["default"] is None else sa.text(found["default"]),
    )


def _rule(rule: Unique | Check | Index) -> sa.schema.SchemaItem:
    match rule:
        case Unique():
            return sa.UniqueConstraint(*rule.columns)
        case Check():
            return sa.CheckConstraint(rule.condition, name=rule.name)
        case Index():
            where = None if rule.where is None else sa.text(rule.where)
            return sa.Index(rule.name, *rule.columns, unique=rule.unique, postgresql_where=where)


for _table in vars(tables).values():
    if isinstance(_table, Table):
        _filled = {} if _table.fillfactor is None else {"fillfactor": str(_table.fillfactor)}
        sa.Table(
            _table.name,
            metadata,
            *(_column(*each) for each in _table.columns.items()),
            *map(_rule, _table.rules),
            postgresql_with=_filled,
        )

# those that queries are about
backfill: Final = metadata.tables["backfill"]
dag: Final = metadata.tables["dag"]
dag_file: Final = metadata.tables["dag_file"]
dag_quarantine: Final = metadata.tables["dag_quarantine"]
dag_run: Final = metadata.tables["dag_run"]
dag_schedule: Final = metadata.tables["dag_schedule"]
dag_version: Final = metadata.tables["dag_version"]
map_label: Final = metadata.tables["map_label"]
task_instance: Final = metadata.tables["task_instance"]
task_note: Final = metadata.tables["task_note"]
version_task: Final = metadata.tables["version_task"]
