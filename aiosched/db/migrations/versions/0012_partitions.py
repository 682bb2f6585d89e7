"""Partitions of assets: keys of events and runs, and the partitions whose runs are still to be created.

Only an addition: schedulers of before create no runs of partitions, and their events have no keys. Revision 0012.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_KEYED = ("dag_run", "asset_event")


def upgrade() -> None:
    for table in _KEYED:
        op.add_column(table, sa.Column("partition_key", sa.Text()))
        op.add_column(table, sa.Column("partition_date", sa.DateTime(timezone=True)))
    op.add_column("dag", sa.Column("is_partitioned", sa.Boolean(), nullable=False, server_default=sa.text("false")))
    op.drop_constraint("pk_asset_consumption", "asset_consumption")
    op.create_primary_key("pk_asset_consumption", "asset_consumption", ["dag_id", "event_id", "run_id"])
    event = sa.ForeignKey("asset_event.id", name="fk_asset_key_event_event_id", ondelete="CASCADE")
    op.create_table(
        "asset_key_event",
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("event_id", sa.BigInteger(), event, nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("refused", sa.Text()),
        sa.Column("mapping", sa.Text()),
        sa.PrimaryKeyConstraint("dag_id", "event_id", name="pk_asset_key_event"),
    )
    waiting = sa.text("refused IS NULL")
    op.create_index(
        "ix_asset_key_event_waiting", "asset_key_event", ["partition", "event_id"], postgresql_where=waiting
    )
    op.create_index("ix_asset_key_event_event_id", "asset_key_event", ["event_id"])
    op.create_table(
        "asset_partition",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True)),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("partition_key", sa.Text(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("mapping", sa.Text(), nullable=False),
        sa.Column("partition_date", sa.DateTime(timezone=True)),
        sa.Column("newest_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.PrimaryKeyConstraint("id", name="pk_asset_partition"),
        sa.UniqueConstraint("dag_id", "partition_key", name="uq_asset_partition_dag_id_partition_key"),
    )
    due = sa.text("due_at IS NOT NULL")
    op.create_index("ix_asset_partition_due", "asset_partition", ["partition"], postgresql_where=due)
    partition = sa.ForeignKey(
        "asset_partition.id", name="fk_asset_partition_event_asset_partition_id", ondelete="CASCADE"
    )
    event = sa.ForeignKey("asset_event.id", name="fk_asset_partition_event_event_id", ondelete="CASCADE")
    op.create_table(
        "asset_partition_event",
        sa.Column("asset_partition_id", sa.BigInteger(), partition, nullable=False),
        sa.Column("event_id", sa.BigInteger(), event, nullable=False),
        sa.PrimaryKeyConstraint("asset_partition_id", "event_id", name="pk_asset_partition_event"),
    )
    op.create_index("ix_asset_partition_event_event_id", "asset_partition_event", ["event_id"])


def downgrade() -> None:
    op.drop_table("asset_partition_event")
    op.drop_table("asset_partition")
    op.drop_table("asset_key_event")
    op.execute(
        "DELETE FROM asset_consumption AS c USING asset_consumption AS later "
        "WHERE later.dag_id = c.dag_id AND later.event_id = c.event_id AND later.run_id > c.run_id"
    )
    op.drop_constraint("pk_asset_consumption", "asset_consumption")
    op.create_primary_key("pk_asset_consumption", "asset_consumption", ["dag_id", "event_id"])
    op.drop_column("dag", "is_partitioned")
    for table in _KEYED:
        op.drop_column(table, "partition_date")
        op.drop_column(table, "partition_key")
