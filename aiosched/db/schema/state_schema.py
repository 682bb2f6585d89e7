"""The tables of state stores: small values that tasks keep for their own later tries, and about assets."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Index, Integer, Table, Text, UniqueConstraint, func

from aiosched.db.schema.columns import identity, instant, metadata

task_state = Table(
    "task_state",
    metadata,
    identity(),
    Column("run_id", BigInteger, nullable=False),  # dag_run.id
    Column("task_id", Text, nullable=False),  # not its index: the value stays with the task in every version
    Column("map_index", Integer, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", JSON, nullable=False),
    instant("updated_at", nullable=False, server_default=func.now()),
    instant("expires_at"),  # NULL: with its run
    UniqueConstraint("run_id", "task_id", "map_index", "key"),
    Index(None, "expires_at"),
)

asset_state = Table(
    "asset_state",
    metadata,
    identity(),
    Column("name", Text, nullable=False),  # of the asset; it may be one that no DAG mentions any more
    Column("key", Text, nullable=False),
    Column("value", JSON, nullable=False),
    instant("updated_at", nullable=False, server_default=func.now()),
    instant("expires_at"),  # NULL: never
    UniqueConstraint("name", "key"),
    Index(None, "expires_at"),
)
