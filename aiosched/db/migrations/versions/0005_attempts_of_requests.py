"""How often the owner of a request has begun to apply it.

Only an addition, so that the schedulers of version 0.2 go on. Revision 0005.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("command", sa.Column("attempts", sa.SmallInteger(), nullable=False, server_default=sa.text("0")))


def downgrade() -> None:
    op.drop_column("command", "attempts")
