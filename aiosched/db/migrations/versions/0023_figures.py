"""Figures of schedulers over time; an index of failed runs; a version without listed tasks is named in a warning.

Only an addition: an older scheduler writes no figures. Revision 0023.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

# A document that nobody can read has no tasks here, and is stored nevertheless; a warning says so.
_TASKS_OF = """
    CREATE OR REPLACE FUNCTION aiosched_version_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO version_task (version_id, task_index, task_id, operator, pool)
        SELECT NEW.id, place - 1, task ->> 'task_id', task ->> 'operator', coalesce(task ->> 'pool', 'default_pool')
          FROM json_array_elements(NEW.spec -> 'tasks') WITH ORDINALITY AS each (task, place);
        RETURN NULL;
    EXCEPTION WHEN others THEN
        {warn}
        RETURN NULL;
    END $$
"""
_WARN = """
        RAISE WARNING 'The tasks of version % of DAG % cannot be listed: %', NEW.number, NEW.dag_id, SQLERRM
            USING DETAIL = 'Lists of task instances lack the tasks of this version; its runs are not affected.',
                  HINT = 'A change of the DAG file makes a new version.';
"""


def _figures() -> list[sa.Column[Any]]:
    counts = sa.text("'{}'")
    integers = postgresql.ARRAY(sa.Integer())
    return [
        sa.Column("minutes", sa.SmallInteger(), nullable=False, server_default=sa.text("1")),
        sa.Column("ended", sa.BigInteger(), nullable=False),
        sa.Column("task_lag", integers, nullable=False, server_default=counts),
        sa.Column("commits", integers, nullable=False, server_default=counts),
        sa.Column("loop_lag", integers, nullable=False, server_default=counts),
        sa.Column("waiting", sa.Double(), nullable=False),
        sa.Column("queued", sa.Double(), nullable=False),
        sa.Column("running", sa.Double(), nullable=False),
        sa.Column("memory", sa.Double()),
        sa.Column("parsing", sa.Double(), nullable=False),
        sa.Column("pools", postgresql.JSONB()),
    ]


def upgrade() -> None:
    op.create_table(
        "figures_minute",
        sa.Column("at", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("incarnation", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("scheduler", sa.Text(), nullable=False),
        *_figures(),
    )
    op.create_table(
        "figures_hour",
        sa.Column("at", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("scheduler", sa.Text(), primary_key=True),
        *_figures(),
    )
    op.execute(_TASKS_OF.format(warn=_WARN))
    failed = sa.text("state = 'failed'")
    op.create_index("ix_dag_run_failed_of_dag", "dag_run", ["dag_id", "id"], postgresql_where=failed)


def downgrade() -> None:
    op.drop_index("ix_dag_run_failed_of_dag", "dag_run")
    op.execute(_TASKS_OF.format(warn=""))
    op.drop_table("figures_hour")
    op.drop_table("figures_minute")
