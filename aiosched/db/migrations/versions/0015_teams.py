"""Teams, the folders of their DAG files, and the team of a DAG, a connection, a variable and a pool.

Only an addition: an older version reads no column `team`, so it shows everything to everybody. Revision 0015.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_OWNED = ("connection", "variable", "pool")  # a team that has one cannot be deleted


def upgrade() -> None:
    now = sa.func.now()
    op.create_table(
        "team",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
        sa.PrimaryKeyConstraint("name", name="pk_team"),
    )
    team = sa.ForeignKey("team.name", name="fk_team_folder_team", ondelete="CASCADE")
    op.create_table(
        "team_folder",
        sa.Column("bundle", sa.Text(), nullable=False, server_default=sa.text("''")),
        sa.Column("folder", sa.Text(), nullable=False, server_default=sa.text("''")),
        sa.Column("team", sa.Text(), team, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
        sa.PrimaryKeyConstraint("bundle", "folder", name="pk_team_folder"),
    )
    op.create_index("ix_team_folder_team", "team_folder", ["team"])
    op.add_column("dag", sa.Column("team", sa.Text()))
    for table in _OWNED:
        op.add_column(table, sa.Column("team", sa.Text()))
        op.create_foreign_key(f"fk_{table}_team", table, "team", ["team"], ["name"])


def downgrade() -> None:
    for table in _OWNED:
        op.drop_column(table, "team")
    op.drop_column("dag", "team")
    op.drop_table("team_folder")
    op.drop_table("team")
