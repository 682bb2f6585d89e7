"""Several keys that sign, so that a new one can replace an old one without a stop.

An older version reads any of them, so it is to be stopped before a key is replaced. Revision 0019.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    signs_from = sa.Column("signs_from", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())
    op.add_column("web_key", signs_from)
    op.drop_constraint(op.f("ck_web_key_id"), "web_key")


def downgrade() -> None:
    op.execute("DELETE FROM web_key WHERE id <> (SELECT min(id) FROM web_key)")
    op.execute("UPDATE web_key SET id = 1")
    op.create_check_constraint(op.f("ck_web_key_id"), "web_key", "id = 1")
    op.drop_column("web_key", "signs_from")
