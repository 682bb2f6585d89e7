"""The tables of DAGs in quarantine, and of reports that are set aside."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Index, Integer, SmallInteger, Table, Text

from aiosched.db.schema.columns import identity, instant, metadata

# DAGs that an unforeseen error concerned: while a row has no `tried_at`, nothing of its DAG is decided.
dag_quarantine = Table(
    "dag_quarantine",
    metadata,
    Column("dag_id", Text, ForeignKey("dag.dag_id", ondelete="CASCADE"), primary_key=True),
    Column("failures", Integer, nullable=False),  # in a row
    instant("since", nullable=False),  # the first of them
    instant("retry_at", nullable=False),
    instant("tried_at"),  # when its owner took it up again; NULL: it is in quarantine
    Column("place", Text, nullable=False),  # what failed, in words
    Column("error", Text, nullable=False),
    Column("traceback", Text, nullable=False),
    Column("version", Text, nullable=False),  # of the aiosched in which it failed
    Column("dag_version_id", BigInteger),  # the newest version of the DAG at that time
)

# Reports of attempts that could not be applied or stored, time after time: kept for people until their run is removed.
set_aside_report = Table(
    "set_aside_report",
    metadata,
    identity(),
    Column("run_id", BigInteger, ForeignKey("dag_run.id", ondelete="CASCADE"), nullable=False),
    Column("task_index", Integer, nullable=False),
    Column("map_index", Integer, nullable=False),
    Column("try_number", SmallInteger, nullable=False),  # negative: of the trigger of that try
    Column("outcome", Text, nullable=False),
    Column("body", JSON, nullable=False),
    Column("queued_by", BigInteger, nullable=False),  # the incarnation that the attempt belongs to
    Column("failures", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("version", Text, nullable=False),  # of the aiosched that could not apply it
    instant("set_aside_at", nullable=False),
    Index(None, "run_id"),
)
