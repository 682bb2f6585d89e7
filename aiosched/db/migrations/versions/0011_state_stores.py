"""State stores of tasks and assets.

Only an addition: older schedulers know nothing of it. Revision 0011.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def _values() -> list[sa.Column[Any]]:
    return [
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
    ]


def upgrade() -> None:
    op.create_table(
        "task_state",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), primary_key=True),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        *_values(),
        sa.UniqueConstraint("run_id", "task_id", "map_index", "key", name="uq_task_state_run_id_task_id_map_index_key"),
    )
    op.create_index("ix_task_state_expires_at", "task_state", ["expires_at"])
    op.create_table(
        "asset_state",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), primary_key=True),
        sa.Column("name", sa.Text(), nullable=False),
        *_values(),
        sa.UniqueConstraint("name", "key", name="uq_asset_state_name_key"),
    )
    op.create_index("ix_asset_state_expires_at", "asset_state", ["expires_at"])


def downgrade() -> None:
    op.drop_table("asset_state")
    op.drop_table("task_state")
