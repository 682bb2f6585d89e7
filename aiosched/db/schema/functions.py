"""What a schema has beside its tables: rows that always exist, functions with their triggers, and a view for people.

A new database gets them with the tables (migrations/versions/0203_first_schema.py); a migration that changes one
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
        INSERT INTO version_task (version_id, task_index, task_id, operator, pool, display_name)
        SELECT NEW.id, place - 1, task ->> 'task_id', task ->> 'operator', coalesce(task ->> 'pool', 'default_pool'),
               task ->> 'display_name'
          FROM json_array_elements(NEW.spec -> 'tasks') WITH ORDINALITY AS each (task, place);
        RETURN NULL;
    EXCEPTION WHEN others THEN
        RAISE WARNING 'The tasks of version % of DAG % cannot be listed: %', NEW.number, NEW.dag_id, SQLERRM
            USING DETAIL = 'Lists of task instances lack the tasks of this version; its runs are not affected.',
                  HINT = 'A change of the DAG file makes a new version.';
        RETURN NULL;
    END $$
"""

# The entries of requests that are answered. Of the arguments, those with data of users are left out, since they may
# hold secrets, and all of them if they are long.
_AUDIT_COLUMNS: Final = "kind, who, address, session_id, token_id, object, dag_id, result, detail, command_id"
_AUDIT_ENTRIES: Final = f"""
    INSERT INTO audit_log ({_AUDIT_COLUMNS})
    SELECT 'request.' || n.verb, n.requested_by, n.address, n.session_id, n.token_id,
           left(coalesce(a.readable ->> 'run_id', a.readable ->> 'name'), 250), n.dag_id,
           CASE n.state WHEN 'applied' THEN 'done' ELSE 'refused' END,
           json_strip_nulls(json_build_object(
               'asked_at', n.created_at, 'reason', n.reason,
               'arguments', CASE WHEN octet_length(s.shown::text) <= 4000 THEN s.shown END,
               'error', left(n.result ->> 'error', 500))),
           n.id
      FROM (%s) AS n
     CROSS JOIN LATERAL (SELECT CASE WHEN octet_length(n.args::text) <= 100000 AND json_typeof(n.args) = 'object'
                                     THEN n.args ELSE '{{}}' END AS readable OFFSET 0) AS a
     CROSS JOIN LATERAL (
           SELECT json_object_agg(key, CASE
                      WHEN key NOT IN ('conf', 'input', 'params', 'extra', 'answer', 'note', 'was') THEN value
                      WHEN json_typeof(value) = 'object' THEN
                          (SELECT coalesce(json_object_agg(k, '***'), '{{}}') FROM json_object_keys(value) AS k)
                      ELSE '"***"' END) AS shown
             FROM json_each(a.readable)) AS s
     ORDER BY n.id
"""
# Arguments that cannot be read (someone else wrote them) cost no request its answer, and no other one its details.
_AUDIT_ENTRY: Final = f"""
        BEGIN
            {_AUDIT_ENTRIES % "SELECT one.*"};
        EXCEPTION WHEN others THEN
            INSERT INTO audit_log ({_AUDIT_COLUMNS})
            VALUES ('request.' || one.verb, one.requested_by, one.address, one.session_id, one.token_id, NULL,
                    one.dag_id, CASE one.state WHEN 'applied' THEN 'done' ELSE 'refused' END,
                    json_strip_nulls(json_build_object('asked_at', one.created_at, 'reason', one.reason)), one.id);
        END;
"""
_AUDIT_REQUEST: Final = f"""
    CREATE OR REPLACE FUNCTION aiosched_audit_request() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        one request := NEW;
    BEGIN
        {_AUDIT_ENTRY}
        RETURN NULL;
    END $$
"""
# Many at a time: a call for each row costs more than answering it. The hot transaction plans without hash joins, which
# two lists of rows in memory need.
_ANSWERED: Final = """
    SELECT c.* FROM changed AS c JOIN before AS b ON b.id = c.id WHERE b.state = 'waiting' AND c.state <> 'waiting'
"""
_AUDIT_REQUESTS: Final = f"""
    CREATE OR REPLACE FUNCTION aiosched_audit_requests() RETURNS trigger LANGUAGE plpgsql SET enable_hashjoin = on AS $$
    DECLARE
        one request;
    BEGIN
        IF NOT EXISTS (SELECT FROM changed WHERE state <> 'waiting') THEN
            RETURN NULL;
        END IF;
        {_AUDIT_ENTRIES % _ANSWERED};
        RETURN NULL;
    EXCEPTION WHEN others THEN
        FOR one IN {_ANSWERED} ORDER BY c.id LOOP
            {_AUDIT_ENTRY}
        END LOOP;
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
            INSERT INTO audit_unsent (id) SELECT id FROM added;
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
    "audit_request_answered": "AFTER UPDATE ON request REFERENCING OLD TABLE AS before NEW TABLE AS changed "
    "FOR EACH STATEMENT EXECUTE FUNCTION aiosched_audit_requests()",
    "audit_request_made": "AFTER INSERT ON request FOR EACH ROW WHEN (NEW.state <> 'waiting') "
    "EXECUTE FUNCTION aiosched_audit_request()",
    "audit_is_kept": "BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION aiosched_audit_is_kept()",
    "audit_is_whole": "BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION aiosched_audit_is_kept()",
    "audit_added": "AFTER INSERT ON audit_log REFERENCING NEW TABLE AS added FOR EACH STATEMENT "
    "EXECUTE FUNCTION aiosched_audit_added()",
}

STATEMENTS: Final = (
    _TASK_INSTANCE_NAMED, *_ROWS,
    _XCOM_RELEASED, _XCOM_STORED, _VERSION_TASKS,
    _AUDIT_REQUEST, _AUDIT_REQUESTS, _AUDIT_IS_KEPT, _AUDIT_ADDED, _PURGE_AUDIT_LOG,
    "REVOKE EXECUTE ON FUNCTION purge_audit_log(timestamptz, integer) FROM PUBLIC",
    *(f"CREATE TRIGGER {name} {trigger}" for name, trigger in _TRIGGERS.items()),
)  # fmt: skip
