"""DAGs in quarantine: what failed, and when their owner tries again.

Only an addition, so that older schedulers go on: they decide about such a DAG. Revision 0006.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "dag_quarantine",
        sa.Column("dag_id", sa.Text(), sa.ForeignKey("dag.dag_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("retry_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tried_at", sa.DateTime(timezone=True)),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("traceback", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("dag_version_id", sa.BigInteger()),
    )


def downgrade() -> None:
    op.drop_table("dag_quarantine")
