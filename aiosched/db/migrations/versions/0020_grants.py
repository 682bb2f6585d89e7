"""Grants of users, groups at an identity provider, scopes of tokens, and what authors of DAGs give to others.

Only an addition: an older version does not know the roles `none` and `editor`, and lets nobody with them in; who has a
role everywhere sees everything in both. Revision 0020.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_NO_WORDS = sa.text("'{}'")


def upgrade() -> None:
    op.add_column("web_user", sa.Column("groups", sa.ARRAY(sa.Text()), nullable=False, server_default=_NO_WORDS))
    _allow("web_user", "none", "viewer", "operator", "editor", "admin")
    user = sa.ForeignKey("web_user.id", name="fk_user_grant_user_id", ondelete="CASCADE")
    op.create_table(
        "user_grant",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("user_id", sa.BigInteger(), user, nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("from_provider", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("id", name="pk_user_grant"),
        sa.UniqueConstraint(
            "user_id", "kind", "name", "from_provider", name="uq_user_grant_user_id_kind_name_from_provider"
        ),
    )
    op.add_column("api_token", sa.Column("grants", sa.ARRAY(sa.Text())))
    _allow("api_token", "viewer", "operator", "editor", "admin")
    op.add_column("dag", sa.Column("access_control", sa.JSON()))


def downgrade() -> None:
    op.drop_column("dag", "access_control")
    op.execute("DELETE FROM api_token WHERE role = 'editor'")
    _allow("api_token", "viewer", "operator", "admin")
    op.drop_column("api_token", "grants")
    op.drop_table("user_grant")
    op.execute("DELETE FROM web_user WHERE role IN ('none', 'editor')")
    _allow("web_user", "viewer", "operator", "admin")
    op.drop_column("web_user", "groups")


def _allow(table: str, *roles: str) -> None:
    """The words that may stand in the column `role`."""
    name = op.f(f"ck_{table}_role")
    op.drop_constraint(name, table)
    op.create_check_constraint(name, table, f"role IN ({', '.join(map(repr, roles))})")
