"""Which code ran: what a version's file imports, with content hashes, and the tries that ran another version's code.

Only additions, so that older schedulers go on. Their versions have no source hash.

Revision 0003. Source: decision 22.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("dag_version", sa.Column("source_hash", sa.Text(), nullable=True))
    op.add_column("dag_version", sa.Column("sources", sa.JSON(), nullable=True))
    op.add_column("dag_file", sa.Column("sources", sa.JSON(), nullable=True))
    op.create_table(
        "try_source",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), nullable=False),
        sa.Column("version_id", sa.BigInteger(), nullable=True),
        sa.Column("source_hash", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["version_id"], ["dag_version.id"], name=op.f("fk_try_source_version_id")),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", "try_number", name=op.f("pk_try_source")),
    )
    op.create_index(op.f("ix_try_source_version_id"), "try_source", ["version_id"])
    op.create_index(
        "ix_try_source_unknown", "try_source", ["source_hash"], postgresql_where=sa.text("version_id IS NULL")
    )


def downgrade() -> None:
    op.drop_table("try_source")
    op.drop_column("dag_file", "sources")
    op.drop_column("dag_version", "sources")
    op.drop_column("dag_version", "source_hash")
