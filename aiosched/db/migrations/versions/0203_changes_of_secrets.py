"""Variables say whether they are secrets; they and connections say who changed them, and when."""

from __future__ import annotations

from alembic import op

revision = "0203"
down_revision = "0201"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE variable ADD COLUMN is_secret boolean NOT NULL DEFAULT false")
    for table in ("variable", "connection"):
        op.execute(f"ALTER TABLE {table} ADD COLUMN changed_at timestamptz, ADD COLUMN changed_by text")
