"""The table of DAGs in quarantine."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, Table, Text

from aiosched.db.schema.columns import instant, metadata

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
