"""What pages look for: indexes of runs in order, the tasks of each version as rows, task ids of a DAG, map labels.

Only an addition: an older scheduler stores versions, whose tasks a trigger adds; it stores no task ids and no labels,
and leaves the labels of removed runs to the newer ones. Revision 0021.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

# A document that nobody can read has no tasks here, and is stored nevertheless.
_TASKS_OF = """
    CREATE OR REPLACE FUNCTION aiosched_version_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO version_task (version_id, task_index, task_id, operator, pool)
        SELECT NEW.id, place - 1, task ->> 'task_id', task ->> 'operator', coalesce(task ->> 'pool', 'default_pool')
          FROM json_array_elements(NEW.spec -> 'tasks') WITH ORDINALITY AS each (task, place);
        RETURN NULL;
    EXCEPTION WHEN others THEN
        RETURN NULL;
    END $$
"""
_OLD_VERSIONS = """
    DO $$
    DECLARE
        known bigint;
    BEGIN
        FOR known IN SELECT id FROM dag_version ORDER BY id LOOP
            BEGIN
                INSERT INTO version_task (version_id, task_index, task_id, operator, pool)
                SELECT v.id, place - 1, task ->> 'task_id', task ->> 'operator',
                       coalesce(task ->> 'pool', 'default_pool')
                  FROM dag_version AS v, json_array_elements(v.spec -> 'tasks') WITH ORDINALITY AS each (task, place)
                 WHERE v.id = known;
            EXCEPTION WHEN others THEN
                NULL;
            END;
        END LOOP;
    END $$
"""


def upgrade() -> None:
    op.create_index("ix_dag_run_run_after_id", "dag_run", ["run_after", "id"])
    op.create_index("ix_dag_run_dag_id_run_after_id", "dag_run", ["dag_id", "run_after", "id"])
    op.create_index(
        "ix_dag_run_end_date_id", "dag_run", ["end_date", "id"], postgresql_where=sa.text("end_date IS NOT NULL")
    )
    op.create_index("ix_dag_run_failed", "dag_run", ["end_date", "id"], postgresql_where=sa.text("state = 'failed'"))
    version = sa.ForeignKey("dag_version.id", name="fk_version_task_version_id", ondelete="CASCADE")
    op.create_table(
        "version_task",
        sa.Column("version_id", sa.BigInteger(), version, nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("version_id", "task_index", name="pk_version_task"),
    )
    op.execute(_TASKS_OF)
    op.execute(
        "CREATE TRIGGER version_tasks AFTER INSERT ON dag_version "
        "FOR EACH ROW EXECUTE FUNCTION aiosched_version_tasks()"
    )
    op.execute(_OLD_VERSIONS)
    op.add_column("dag", sa.Column("task_ids", sa.Text()))
    op.create_table(
        "map_label",
        sa.Column("run_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("task_index", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("map_index", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("label", sa.Text(), nullable=False),
    )
    undated = sa.text("logical_date IS NULL")
    op.create_index("ix_dag_run_undated", "dag_run", ["dag_id", "run_after"], postgresql_where=undated)


def downgrade() -> None:
    op.drop_table("map_label")
    op.drop_column("dag", "task_ids")
    op.execute("DROP TRIGGER version_tasks ON dag_version")
    op.execute("DROP FUNCTION aiosched_version_tasks()")
    op.drop_table("version_task")
    for name in ("undated", "failed", "end_date_id", "dag_id_run_after_id", "run_after_id"):
        op.drop_index(f"ix_dag_run_{name}", "dag_run")
