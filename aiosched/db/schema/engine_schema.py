"""The table of attempts that run on engines (Dask, Celery, Kubernetes and the like)."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from aiosched.db.schema.columns import created_at, identity, instant, metadata, partition

# The attempts that an engine was given and that have not ended. Whatever ends one replaces its row by its final report
# in `task_report`, in one transaction: so each of them gets exactly one.
engine_attempt = Table(
    "engine_attempt",
    metadata,
    identity(),
    partition(),
    Column("run_id", BigInteger, nullable=False),
    Column("task_index", Integer, nullable=False),
    Column("map_index", Integer, nullable=False),
    Column("try_number", SmallInteger, nullable=False),
    Column("queued_by", BigInteger, nullable=False),  # the incarnation that queued it
    Column("executor", Text, nullable=False),  # the name by which tasks choose the engine
    Column("attempt", LargeBinary, nullable=False),  # msgpack of core.values.messages.Attempt
    created_at(),
    Column("worker", Text),  # the id of the worker that claimed its start; NULL: it has not begun
    Column("hostname", Text),
    Column("pid", Integer),
    instant("begun_at"),
    instant("alive_until"),  # the worker has to renew this before it has passed, by the database's clock
    Column("is_announced", Boolean, nullable=False, server_default=text("false")),  # its start was reported
    Column("stop_grace", Integer),  # seconds in which it is to end, since its result is not wanted; NULL: it goes on
    UniqueConstraint("run_id", "task_index", "map_index", "try_number"),
    Index(None, "partition"),
    postgresql_with={"fillfactor": "50"},  # a row is updated in place by its worker's heartbeats
)
