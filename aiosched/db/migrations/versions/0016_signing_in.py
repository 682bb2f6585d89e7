"""Kinds of users, their identity at a provider, tokens that only read, and one-time tokens for loopback addresses.

Only an addition: everybody of before is a person, and each token may change what its role may. Revision 0016.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("web_user", sa.Column("kind", sa.Text(), nullable=False, server_default="person"))
    op.create_check_constraint("kind", "web_user", "kind IN ('person', 'service', 'local')")
    op.add_column("web_user", sa.Column("issuer", sa.Text()))
    op.add_column("web_user", sa.Column("subject", sa.Text()))
    op.create_unique_constraint("uq_web_user_issuer_subject", "web_user", ["issuer", "subject"])
    op.add_column("api_token", sa.Column("read_only", sa.Boolean(), nullable=False, server_default=sa.text("false")))
    op.create_table(
        "login_link",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("token_hash", name="pk_login_link"),
    )


def downgrade() -> None:
    op.drop_table("login_link")
    op.drop_column("api_token", "read_only")
    op.drop_constraint("uq_web_user_issuer_subject", "web_user")
    op.drop_column("web_user", "subject")
    op.drop_column("web_user", "issuer")
    op.drop_constraint("ck_web_user_kind", "web_user")
    op.drop_column("web_user", "kind")
