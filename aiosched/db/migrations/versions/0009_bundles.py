"""Where the code of a version came from: its bundle, and the bundle's version; the snapshots of folders.

Only additions, so that older schedulers go on: their versions have neither, and run the newest code.

Revision 0009. Source: decision 33.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("dag_version", sa.Column("bundle", sa.Text(), nullable=True))
    op.add_column("dag_version", sa.Column("bundle_version", sa.Text(), nullable=True))
    op.add_column("dag_file", sa.Column("bundle_version", sa.Text(), nullable=True))
    op.create_table(
        "bundle_snapshot",
        sa.Column("version", sa.Text(), primary_key=True),
        sa.Column("archive", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
    )


def downgrade() -> None:
    op.drop_table("bundle_snapshot")
    op.drop_column("dag_file", "bundle_version")
    op.drop_column("dag_version", "bundle_version")
    op.drop_column("dag_version", "bundle")
