"""Sessions of users as rows, an id of each user that no namesake gets, and counters of failed logins.

Only an addition: web servers of before sign their own cookies, and users log in to each version. Revision 0014.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    now = sa.func.now()
    op.add_column("web_user", sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False))
    last_login = sa.Column("last_login_at", sa.DateTime(timezone=True), nullable=False, server_default=now)
    op.add_column("web_user", last_login)
    op.create_unique_constraint("uq_web_user_id", "web_user", ["id"])
    user = sa.ForeignKey("web_user.id", name="fk_web_session_user_id", ondelete="CASCADE")
    op.create_table(
        "web_session",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("user_id", sa.BigInteger(), user, nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("void", sa.Integer(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
        sa.PrimaryKeyConstraint("id", name="pk_web_session"),
        sa.UniqueConstraint("token_hash", name="uq_web_session_token_hash"),
    )
    op.create_index("ix_web_session_user_id", "web_session", ["user_id"])
    op.create_index("ix_web_session_expires_at", "web_session", ["expires_at"])
    op.create_table(
        "login_failure",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_login_failure"),
    )
    op.create_index("ix_login_failure_last_at", "login_failure", ["last_at"])


def downgrade() -> None:
    op.drop_table("login_failure")
    op.drop_table("web_session")
    op.drop_constraint("uq_web_user_id", "web_user")
    op.drop_column("web_user", "last_login_at")
    op.drop_column("web_user", "id")
