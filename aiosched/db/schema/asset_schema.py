"""The tables of assets, their events, and the runs that events have triggered or will trigger."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from aiosched.db.schema.columns import created_at, identity, instant, metadata, one_of, partition

asset = Table(
    "asset",
    metadata,
    identity(),
    Column("name", Text, nullable=False, unique=True),  # identifies the asset
    Column("uri", Text, nullable=False),
    Column("is_active", Boolean, nullable=False, server_default=text("true")),  # referenced by a DAG
    Column("extra", JSON, nullable=False, server_default=text("'{}'")),
    created_at(),
    Index(None, "uri"),
)

# The assets that an alias has resolved to so far.
asset_alias = Table(
    "asset_alias",
    metadata,
    Column("alias", Text, primary_key=True),
    Column("asset_id", BigInteger, ForeignKey("asset.id", ondelete="CASCADE"), primary_key=True),
    created_at(),
    Index(None, "asset_id"),
)

# The references from DAGs to assets, and their kinds. Written by parsing; none for stale DAGs.
asset_reference = Table(
    "asset_reference",
    metadata,
    Column("dag_id", Text, primary_key=True),
    Column("role", Text, primary_key=True),
    Column("kind", Text, primary_key=True),  # asset and alias are definitions, name and uri are references
    Column("name", Text, primary_key=True),  # of the asset or alias; the URI for kind uri
    Column("task_id", Text, primary_key=True),  # empty for the schedule
    Column("uri", Text, nullable=False, server_default=text("''")),
    Column("watchers", JSON),  # of the asset, as the schedule defines it; NULL: none
    Column("fresh_within", Float),  # of the asset, in seconds; NULL: this mention says nothing
    CheckConstraint(one_of("role", ("schedule", "inlet", "outlet")), name="role"),
    CheckConstraint(one_of("kind", ("asset", "alias", "name", "uri")), name="kind"),
    Index(None, "name", "role"),
)

asset_event = Table(
    "asset_event",
    metadata,
    identity(),
    Column("asset_id", BigInteger, ForeignKey("asset.id", ondelete="CASCADE"), nullable=False),
    instant("timestamp", nullable=False),
    Column("source_dag_id", Text),  # the source is NULL for events created by users
    Column("source_run_id", BigInteger),  # dag_run.id
    Column("source_task_index", Integer),
    Column("source_map_index", Integer),
    Column("alias", Text),  # the alias through which a task added it
    Column("extra", JSON, nullable=False, server_default=text("'{}'")),
    Column("partition_key", Text),  # of the partition of the asset; NULL: it is about the whole asset
    instant("partition_date"),
    created_at(),
    Index(None, "asset_id", "timestamp"),
)

# Assets with events that no run of the DAG has consumed yet: one row for any number of events.
asset_queue = Table(
    "asset_queue",
    metadata,
    Column("dag_id", Text, primary_key=True),
    Column("asset_id", BigInteger, ForeignKey("asset.id", ondelete="CASCADE"), primary_key=True),
    partition(),
    instant("first_at", nullable=False),  # of the oldest and the newest of these events
    instant("newest_at", nullable=False),
    created_at(),
    Index(None, "partition"),
)

# The events that triggered an asset-triggered run. Each counts once for a DAG; with partitions, once for each key.
asset_consumption = Table(
    "asset_consumption",
    metadata,
    Column("dag_id", Text, primary_key=True),
    Column("event_id", BigInteger, ForeignKey("asset_event.id", ondelete="CASCADE"), primary_key=True),
    Column("run_id", BigInteger, primary_key=True),  # dag_run.id
    Index(None, "run_id"),
    Index(None, "event_id"),
)

# Events with a partition key whose runs the owner of the DAG has not determined yet.
asset_key_event = Table(
    "asset_key_event",
    metadata,
    Column("dag_id", Text, primary_key=True),
    Column("event_id", BigInteger, ForeignKey("asset_event.id", ondelete="CASCADE"), primary_key=True),
    partition(),
    Column("refused", Text),  # why no run follows from it; NULL: it waits to be mapped
    Column("mapping", Text),  # the digest of the schedule that refused it
    Index("ix_asset_key_event_waiting", "partition", "event_id", postgresql_where=text("refused IS NULL")),
    Index(None, "event_id"),
)

# Partitions whose run has not been created yet: some of their events have arrived.
asset_partition = Table(
    "asset_partition",
    metadata,
    identity(),
    Column("dag_id", Text, nullable=False),
    Column("partition_key", Text, nullable=False),  # of the run
    partition(),
    Column("mapping", Text, nullable=False),  # the digest of the schedule by which the events were mapped
    instant("partition_date"),  # that of the events, if they agree
    instant("newest_at", nullable=False),  # of the newest of these events
    instant("due_at"),  # since when the condition is met; NULL: it is not
    created_at(),
    UniqueConstraint("dag_id", "partition_key"),
    Index("ix_asset_partition_due", "partition", postgresql_where=text("due_at IS NOT NULL")),
)

# Their events: each key of an event at an asset counts once, however often it comes.
asset_partition_event = Table(
    "asset_partition_event",
    metadata,
    Column("asset_partition_id", BigInteger, ForeignKey("asset_partition.id", ondelete="CASCADE"), primary_key=True),
    Column("event_id", BigInteger, ForeignKey("asset_event.id", ondelete="CASCADE"), primary_key=True),
    Index(None, "event_id"),
)
