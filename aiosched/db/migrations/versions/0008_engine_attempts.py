"""Attempts that run on engines: Dask, Celery, Kubernetes.

Only an addition: older schedulers never hand an attempt to an engine. Revision 0008.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "engine_attempt",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), primary_key=True),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), nullable=False),
        sa.Column("queued_by", sa.BigInteger(), nullable=False),
        sa.Column("executor", sa.Text(), nullable=False),
        sa.Column("attempt", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("worker", sa.Text()),
        sa.Column("hostname", sa.Text()),
        sa.Column("pid", sa.Integer()),
        sa.Column("begun_at", sa.DateTime(timezone=True)),
        sa.Column("alive_until", sa.DateTime(timezone=True)),
        sa.Column("is_announced", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        sa.Column("stop_grace", sa.Integer()),
        sa.UniqueConstraint(
            "run_id", "task_index", "map_index", "try_number",
            name="uq_engine_attempt_run_id_task_index_map_index_try_number",
        ),
        postgresql_with={"fillfactor": "50"},
    )  # fmt: skip
    op.create_index("ix_engine_attempt_partition", "engine_attempt", ["partition"])


def downgrade() -> None:
    op.drop_table("engine_attempt")
