"""The audit log: entries that nobody changes, and one for each request that is answered.

Only an addition: processes of before write no entries but those of their requests, which the trigger adds. Revision
0017.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_REQUEST_COLUMNS = (("address", sa.Text()), ("session_id", sa.BigInteger()), ("token_id", sa.BigInteger()))

# Of the arguments of a request, those with data of users are left out, since they may hold secrets, and all of them if
# they are long. Arguments that cannot be read (someone else wrote them) cost no request its answer.
_OF_REQUEST = """
    CREATE OR REPLACE FUNCTION aiosched_audit_request() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        arguments json;
        error text;
        about text;
    BEGIN
        BEGIN
            IF octet_length(NEW.args::text) <= 100000 AND json_typeof(NEW.args) = 'object' THEN
                SELECT json_object_agg(key, CASE
                           WHEN key NOT IN ('conf', 'input', 'params', 'extra', 'answer', 'note') THEN value
                           WHEN json_typeof(value) = 'object' THEN
                               (SELECT coalesce(json_object_agg(k, '***'), '{}') FROM json_object_keys(value) AS k)
                           ELSE '"***"' END)
                  INTO arguments FROM json_each(NEW.args);
                about := coalesce(NEW.args ->> 'run_id', NEW.args ->> 'name');
            END IF;
            IF octet_length(arguments::text) > 4000 THEN
                arguments := NULL;
            END IF;
            error := left(NEW.result ->> 'error', 500);
        EXCEPTION WHEN others THEN
            arguments := NULL;
        END;
        INSERT INTO audit_log
               (kind, who, address, session_id, token_id, object, dag_id, result, detail, command_id)
        VALUES ('request.' || NEW.verb, NEW.requested_by, NEW.address, NEW.session_id, NEW.token_id, left(about, 250),
                NEW.dag_id, CASE NEW.state WHEN 'applied' THEN 'done' ELSE 'refused' END,
                json_strip_nulls(json_build_object(
                    'asked_at', NEW.created_at, 'reason', NEW.reason, 'arguments', arguments, 'error', error)),
                NEW.id);
        RETURN NULL;
    END $$
"""
_UNCHANGED = """
    CREATE OR REPLACE FUNCTION aiosched_audit_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' AND OLD.at < now() - interval '7 days' THEN
            RETURN OLD;
        END IF;
        RAISE EXCEPTION 'entries of audit_log are not changed, and not deleted before they are 7 days old'
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'The setting audit.retention_days says how long entries are kept.';
    END $$
"""
_UNSENT = """
    CREATE OR REPLACE FUNCTION aiosched_audit_added() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT FROM audit_receiver) THEN
            INSERT INTO audit_unsent (id) VALUES (NEW.id);
        END IF;
        RETURN NULL;
    END $$
"""
# It runs as its owner, so its search path is the schema of the tables, and nothing of the caller's.
_PURGE = """
    DO $make$
    BEGIN
        EXECUTE format($text$
            CREATE OR REPLACE FUNCTION purge_audit_log(before timestamptz, most integer) RETURNS integer
            LANGUAGE sql SECURITY DEFINER SET search_path = %I, pg_temp AS $$
                WITH gone AS (
                    DELETE FROM audit_log WHERE id IN (
                        SELECT id FROM audit_log WHERE at < least(before, now() - interval '7 days')
                         ORDER BY at LIMIT most)
                    RETURNING id
                ), sent AS (
                    DELETE FROM audit_unsent WHERE id IN (SELECT id FROM gone)
                )
                SELECT count(*)::integer FROM gone
            $$ $text$, current_schema());
    END $make$
"""
_TRIGGERS = {
    ("audit_request_answered", "command"): "AFTER UPDATE OF state ON command FOR EACH ROW "
    "WHEN (OLD.state = 'waiting' AND NEW.state <> 'waiting') EXECUTE FUNCTION aiosched_audit_request()",
    ("audit_request_made", "command"): "AFTER INSERT ON command FOR EACH ROW WHEN (NEW.state <> 'waiting') "
    "EXECUTE FUNCTION aiosched_audit_request()",
    ("audit_is_kept", "audit_log"): "BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW "
    "EXECUTE FUNCTION aiosched_audit_is_kept()",
    ("audit_is_whole", "audit_log"): "BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT "
    "EXECUTE FUNCTION aiosched_audit_is_kept()",
    ("audit_added", "audit_log"): "AFTER INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION aiosched_audit_added()",
}


def upgrade() -> None:
    for name, kind in _REQUEST_COLUMNS:
        op.add_column("command", sa.Column(name, kind))
    _create_tables()
    for function in (_OF_REQUEST, _UNCHANGED, _UNSENT, _PURGE):
        op.execute(function)
    op.execute("REVOKE EXECUTE ON FUNCTION purge_audit_log(timestamptz, integer) FROM PUBLIC")
    for (name, _), trigger in _TRIGGERS.items():
        op.execute(f"CREATE TRIGGER {name} {trigger}")


def _create_tables() -> None:
    op.create_table(
        "audit_log",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), primary_key=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("address", sa.Text()),
        sa.Column("session_id", sa.BigInteger()),
        sa.Column("token_id", sa.BigInteger()),
        sa.Column("object", sa.Text()),
        sa.Column("dag_id", sa.Text()),
        sa.Column("result", sa.Text(), nullable=False, server_default=sa.text("'done'")),
        sa.Column("detail", sa.JSON(), nullable=False, server_default=sa.text("'{}'")),
        sa.Column("times", sa.Integer(), nullable=False, server_default=sa.text("1")),
        sa.Column("command_id", sa.BigInteger()),
    )
    op.create_index("ix_audit_log_at", "audit_log", ["at"])
    op.create_index("ix_audit_log_dag_id_id", "audit_log", ["dag_id", "id"])
    op.create_index("ix_audit_log_who_id", "audit_log", ["who", "id"])
    op.create_table(
        "audit_repeated",
        sa.Column("key", sa.Text(), primary_key=True),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("address", sa.Text()),
        sa.Column("object", sa.Text()),
        sa.Column("dag_id", sa.Text()),
        sa.Column("detail", sa.JSON(), nullable=False),
    )
    op.create_table("audit_unsent", sa.Column("id", sa.BigInteger(), primary_key=True, autoincrement=False))
    op.create_table(
        "audit_receiver",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    )


def downgrade() -> None:
    for name, table in _TRIGGERS:
        op.execute(f"DROP TRIGGER {name} ON {table}")
    for table in ("audit_receiver", "audit_unsent", "audit_repeated", "audit_log"):
        op.drop_table(table)
    for function in ("aiosched_audit_request()", "aiosched_audit_is_kept()", "aiosched_audit_added()"):
        op.execute(f"DROP FUNCTION {function}")
    op.execute("DROP FUNCTION purge_audit_log(timestamptz, integer)")
    for name, _ in _REQUEST_COLUMNS:
        op.drop_column("command", name)
