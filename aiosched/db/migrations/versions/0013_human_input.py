"""What tasks ask people.

Only an addition: older schedulers know nothing of it. Revision 0013.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "human_input",
        sa.Column("run_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("task_index", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("map_index", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("try_number", sa.SmallInteger(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("question", sa.JSON(), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("answer", sa.JSON()),
        sa.Column("answered_by", sa.Text()),
        sa.Column("answered_at", sa.DateTime(timezone=True)),
    )
    op.create_index("ix_human_input_asked_at", "human_input", ["asked_at"])


def downgrade() -> None:
    op.drop_table("human_input")
