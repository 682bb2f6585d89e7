"""The other DAGs that tasks start or wait for, as rows; how long an asset is fresh.

Only an addition: an older scheduler stores neither, and a DAG that it parses keeps the rows of before. Revision 0024.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

# As core/graph/dependencies.py reads the documents. One that nobody can read has no rows here.
_FROM_DOCUMENTS = r"""
    DO $$
    DECLARE
        known record;
    BEGIN
        FOR known IN SELECT dag_id, version_id FROM dag WHERE NOT is_stale AND version_id IS NOT NULL ORDER BY dag_id
        LOOP
            BEGIN
                INSERT INTO dag_dependency (dag_id, kind, task_id, other_dag_id)
                SELECT known.dag_id,
                       CASE WHEN field = 'trigger_dag_id' THEN 'triggers'
                            WHEN task ->> 'marks' IS NULL THEN 'waits_for' ELSE 'marks' END,
                       task ->> 'task_id', CASE WHEN given.value ~ '^[\w.-]+$' THEN given.value ELSE '' END
                  FROM dag_version AS v
                 CROSS JOIN json_array_elements(v.spec -> 'tasks') AS task
                 CROSS JOIN unnest(ARRAY['trigger_dag_id', 'external_dag_id']) AS field
                 CROSS JOIN LATERAL (
                       SELECT task -> 'template_fields' -> field AS value
                 ) AS shown
                 CROSS JOIN LATERAL json_array_elements_text(
                       CASE WHEN json_typeof(shown.value) <> 'array' THEN json_build_array(shown.value)
                            WHEN task ->> 'mapping' IS NULL OR json_array_length(shown.value) = 0 THEN '[""]'::json
                            ELSE shown.value END
                 ) AS given
                 WHERE v.id = known.version_id AND shown.value IS NOT NULL
                ON CONFLICT DO NOTHING;
            EXCEPTION WHEN others THEN
                NULL;
            END;
        END LOOP;
    END $$
"""


def upgrade() -> None:
    op.add_column("asset_reference", sa.Column("fresh_within", sa.Float()))
    op.create_table(
        "dag_dependency",
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("other_dag_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("dag_id", "kind", "task_id", "other_dag_id", name="pk_dag_dependency"),
        sa.CheckConstraint("kind IN ('triggers', 'waits_for', 'marks')", name=op.f("ck_dag_dependency_kind")),
    )
    op.create_index("ix_dag_dependency_other_dag_id", "dag_dependency", ["other_dag_id"])
    op.execute(_FROM_DOCUMENTS)


def downgrade() -> None:
    op.drop_table("dag_dependency")
    op.drop_column("asset_reference", "fresh_within")
