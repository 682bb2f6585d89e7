"""What a schema has beside its tables: rows that always exist, functions with their triggers, and a view for people.

A new database gets them with the tables (migrations/versions/0201_first_schema.py); a migration that changes one
executes what stands here. Source: docs/architecture.md, "The tables".
"""

from __future__ import annotations

from typing import Final

# Task instances as people name them. The names of a run's tasks are unpacked once per run (OFFSET 0 keeps the
# planner from doing it once per row), so ask by dag_id and run_id, or for few runs.
_TASK_INSTANCE_NAMED: Final = """
    CREATE VIEW task_instance_named AS
    SELECT r.dag_id, r.run_id, ti.task_id, ti.map_index, ti.state, ti.try_number, ti.max_tries, ti.losses,
           ti.reason, ti.operator, ti.pool, ti.queued_by, ti.scheduled_at, ti.queued_at, ti.start_date, ti.end_date,
           ti.next_at, r.logical_date, r.state AS run_state, r.id AS run_key, ti.task_index
      FROM dag_run AS r
      JOIN dag_version AS v ON v.id = r.version_id
     CROSS JOIN LATERAL (
           SELECT i.*, task.spec ->> 'task_id' AS task_id, task.spec ->> 'operator' AS operator,
                  coalesce(task.spec ->> 'pool', 'default_pool') AS pool
             FROM task_instance AS i
             LEFT JOIN json_array_elements(v.spec -> 'tasks') WITH ORDINALITY AS task (spec, position)
               ON task.position = i.task_index + 1
            WHERE i.run_id = r.id
           OFFSET 0
     ) AS ti
"""

_ROWS: Final = (
    "INSERT INTO partition_lease (partition) SELECT generate_series(0, 63)",
    "INSERT INTO pool (name, slots, description) VALUES ('default_pool', 128, 'where tasks go that name no pool')",
    "INSERT INTO fleet DEFAULT VALUES",
)

_XCOM_RELEASED: Final = """
    CREATE OR REPLACE FUNCTION aiosched_xcom_released() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO unreferenced_xcom (path, since) VALUES (OLD.stored ->> 'path', now())
            ON CONFLICT (path) DO UPDATE SET try_number = NULL, since = now();
        RETURN NULL;
    END $$
"""
_XCOM_STORED: Final = """
    CREATE OR REPLACE FUNCTION aiosched_xcom_stored() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM unreferenced_xcom WHERE path = NEW.stored ->> 'path';
        RETURN NULL;
    END $$
"""

# A document that nobody can read has no tasks here, and is stored nevertheless; a warning says so.
_VERSION_TASKS: Final = """
    CREATE OR REPLACE FUNCTION aiosched_version_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO version_task (version_id, task_index, task_id, operator, pool)
        SELECT NEW.id, place - 1, task ->> 'task_id', task ->> 'operator', coalesce(task ->> 'pool', 'default_pool')
          FROM json_array_elements(NEW.spec -> 'tasks') WITH ORDINALITY AS each (task, place);
        RETURN NULL;
    EXCEPTION WHEN others THEN
        RAISE WARNING 'The tasks of version % of DAG % cannot be listed: %', NEW.number, NEW.dag_id, SQLERRM
            USING DETAIL = 'Lists of task instances lack the tasks of this version; its runs are not affected.',
                  HINT = 'A change of the DAG file makes a new version.';
        RETURN NULL;
    END $$
"""

# Of the arguments of a request, those with data of users are left out, since they may hold secrets, and all of them if
# they are long. Arguments that cannot be read (someone else wrote them) cost no request its answer.
_AUDIT_REQUEST: Final = """
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

_AUDIT_IS_KEPT: Final = """
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

_AUDIT_ADDED: Final = """
    CREATE OR REPLACE FUNCTION aiosched_audit_added() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT FROM audit_receiver) THEN
            INSERT INTO audit_unsent (id) VALUES (NEW.id);
        END IF;
        RETURN NULL;
    END $$
"""

# It runs as its owner, so its search path is the schema of the tables, and nothing of the caller's.
_PURGE_AUDIT_LOG: Final = """
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

_TRIGGERS: Final = {
    "version_tasks": "AFTER INSERT ON dag_version FOR EACH ROW EXECUTE FUNCTION aiosched_version_tasks()",
    "xcom_deleted": "AFTER DELETE ON xcom FOR EACH ROW WHEN (OLD.stored ->> 'path' IS NOT NULL) EXECUTE FUNCTION "
    "aiosched_xcom_released()",
    "xcom_replaced": "AFTER UPDATE ON xcom FOR EACH ROW WHEN (OLD.stored ->> 'path' IS NOT NULL AND "
    "OLD.stored ->> 'path' IS DISTINCT FROM NEW.stored ->> 'path') EXECUTE FUNCTION aiosched_xcom_released()",
    "xcom_stored": "AFTER INSERT OR UPDATE ON xcom FOR EACH ROW WHEN (NEW.stored ->> 'path' IS NOT NULL) "
    "EXECUTE FUNCTION aiosched_xcom_stored()",
    "audit_request_answered": "AFTER UPDATE OF state ON request FOR EACH ROW "
    "WHEN (OLD.state = 'waiting' AND NEW.state <> 'waiting') EXECUTE FUNCTION aiosched_audit_request()",
    "audit_request_made": "AFTER INSERT ON request FOR EACH ROW WHEN (NEW.state <> 'waiting') "
    "EXECUTE FUNCTION aiosched_audit_request()",
    "audit_is_kept": "BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION aiosched_audit_is_kept()",
    "audit_is_whole": "BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION aiosched_audit_is_kept()",
    "audit_added": "AFTER INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION aiosched_audit_added()",
}

STATEMENTS: Final = (
    _TASK_INSTANCE_NAMED, *_ROWS,
    _XCOM_RELEASED, _XCOM_STORED, _VERSION_TASKS, _AUDIT_REQUEST, _AUDIT_IS_KEPT, _AUDIT_ADDED, _PURGE_AUDIT_LOG,
    "REVOKE EXECUTE ON FUNCTION purge_audit_log(timestamptz, integer) FROM PUBLIC",
    *(f"CREATE TRIGGER {name} {trigger}" for name, trigger in _TRIGGERS.items()),
)  # fmt: skip
