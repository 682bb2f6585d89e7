"""Reports that are set aside, because they could not be applied time after time.

Only an addition: older schedulers do not know these reports, and leave their DAGs in quarantine. Revision 0007.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "set_aside_report",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), primary_key=True),
        sa.Column("run_id", sa.BigInteger(), sa.ForeignKey("dag_run.id", ondelete="CASCADE"), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("queued_by", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("set_aside_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_set_aside_report_run_id", "set_aside_report", ["run_id"])


def downgrade() -> None:
    op.drop_table("set_aside_report")
