"""XComs in remote storage, and the files there that no XCom refers to.

Only an addition: older schedulers know nothing of it, and write no such XComs. Revision 0010.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_FUNCTIONS = (
    """
    CREATE OR REPLACE FUNCTION aiosched_xcom_released() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO unreferenced_xcom (path, since) VALUES (OLD.stored ->> 'path', now())
            ON CONFLICT (path) DO UPDATE SET try_number = NULL, since = now();
        RETURN NULL;
    END $$
    """,
    """
    CREATE OR REPLACE FUNCTION aiosched_xcom_stored() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM unreferenced_xcom WHERE path = NEW.stored ->> 'path';
        RETURN NULL;
    END $$
    """,
)
_TRIGGERS = {
    "xcom_deleted": "AFTER DELETE ON xcom FOR EACH ROW WHEN (OLD.stored ->> 'path' IS NOT NULL) EXECUTE FUNCTION "
    "aiosched_xcom_released()",
    "xcom_replaced": "AFTER UPDATE ON xcom FOR EACH ROW WHEN (OLD.stored ->> 'path' IS NOT NULL AND "
    "OLD.stored ->> 'path' IS DISTINCT FROM NEW.stored ->> 'path') EXECUTE FUNCTION aiosched_xcom_released()",
    "xcom_stored": "AFTER INSERT OR UPDATE ON xcom FOR EACH ROW WHEN (NEW.stored ->> 'path' IS NOT NULL) "
    "EXECUTE FUNCTION aiosched_xcom_stored()",
}


def upgrade() -> None:
    op.add_column("xcom", sa.Column("stored", sa.JSON()))
    op.create_table(
        "unreferenced_xcom",
        sa.Column("path", sa.Text(), primary_key=True),
        sa.Column("run_id", sa.BigInteger()),
        sa.Column("task_index", sa.Integer()),
        sa.Column("map_index", sa.Integer()),
        sa.Column("try_number", sa.SmallInteger()),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_unreferenced_xcom_since", "unreferenced_xcom", ["since"])
    for function in _FUNCTIONS:
        op.execute(function)
    for name, trigger in _TRIGGERS.items():
        op.execute(f"CREATE TRIGGER {name} {trigger}")


def downgrade() -> None:
    for name in _TRIGGERS:
        op.execute(f"DROP TRIGGER {name} ON xcom")
    op.execute("DROP FUNCTION aiosched_xcom_released()")
    op.execute("DROP FUNCTION aiosched_xcom_stored()")
    op.drop_table("unreferenced_xcom")
    op.drop_column("xcom", "stored")
