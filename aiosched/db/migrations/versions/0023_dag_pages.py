"""Labels of mapped instances, and an index for the runs of a DAG by date.

Only an addition: older schedulers store no labels, and leave those of removed runs to the newer ones. Revision 0023.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "map_label",
        sa.Column("run_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("task_index", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("map_index", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("label", sa.Text(), nullable=False),
    )
    undated = sa.text("logical_date IS NULL")
    op.create_index("ix_dag_run_undated", "dag_run", ["dag_id", "run_after"], postgresql_where=undated)


def downgrade() -> None:
    op.drop_index("ix_dag_run_undated", table_name="dag_run")
    op.drop_table("map_label")
