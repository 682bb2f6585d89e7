"""The id of a request, by which asking twice does it once.

Only an addition, so that the schedulers of version 0.2 go on. Revision 0004.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("command", sa.Column("request_id", sa.Uuid(), nullable=True))
    present = sa.text("request_id IS NOT NULL")
    op.create_index("ix_command_request_id", "command", ["request_id"], unique=True, postgresql_where=present)


def downgrade() -> None:
    op.drop_index("ix_command_request_id", "command")
    op.drop_column("command", "request_id")
