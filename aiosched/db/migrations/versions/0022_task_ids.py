"""The ids of a DAG's tasks, for the search.

Only an addition: a scheduler fills the column when it parses a DAG next, and an older one leaves it. Revision 0022.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("dag", sa.Column("task_ids", sa.Text()))


def downgrade() -> None:
    op.drop_column("dag", "task_ids")
