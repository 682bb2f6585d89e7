"""The template fields of tries as they were rendered.

Only an addition: older schedulers store none, and leave those of removed runs to the newer ones. Revision 0018.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rendered_fields",
        sa.Column("run_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("task_index", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("map_index", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("try_number", sa.SmallInteger(), primary_key=True, autoincrement=False),
        sa.Column("fields", sa.JSON(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("rendered_fields")
