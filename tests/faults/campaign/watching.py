"""Triggers that keep every change of a watched row, so that histories can be judged afterwards."""

from __future__ import annotations

WATCH = """
    CREATE SCHEMA watched;

    CREATE TABLE watched.instance (
        n bigint GENERATED ALWAYS AS IDENTITY, tx xid8 DEFAULT pg_current_xact_id(),
        at timestamptz DEFAULT clock_timestamp(), run_id bigint, task_index int, map_index int,
        old text, new text, old_try int, new_try int, queued_by bigint
    );
    CREATE FUNCTION watched.note_instance() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF (OLD.state, OLD.try_number) IS DISTINCT FROM (NEW.state, NEW.try_number) THEN
            INSERT INTO watched.instance (run_id, task_index, map_index, old, new, old_try, new_try, queued_by)
            VALUES (NEW.run_id, NEW.task_index, NEW.map_index, OLD.state, NEW.state, OLD.try_number, NEW.try_number,
                    NEW.queued_by);
        END IF;
        RETURN NULL; END $$;
    CREATE TRIGGER watched AFTER UPDATE ON task_instance FOR EACH ROW EXECUTE FUNCTION watched.note_instance();

    CREATE TABLE watched.run (
        n bigint GENERATED ALWAYS AS IDENTITY, tx xid8 DEFAULT pg_current_xact_id(),
        at timestamptz DEFAULT clock_timestamp(), id bigint, old text, new text
    );
    CREATE FUNCTION watched.note_run() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO watched.run (id, old, new)
        VALUES (NEW.id, CASE TG_OP WHEN 'UPDATE' THEN OLD.state END, NEW.state);
        RETURN NULL; END $$;
    CREATE TRIGGER watched AFTER INSERT OR UPDATE ON dag_run FOR EACH ROW EXECUTE FUNCTION watched.note_run();

    CREATE TABLE watched.pool (n bigint GENERATED ALWAYS AS IDENTITY, name text, used int, slots int);
    CREATE FUNCTION watched.note_pool() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO watched.pool (name, used, slots) VALUES (NEW.name, NEW.used, NEW.slots);
        RETURN NULL; END $$;
    CREATE TRIGGER watched AFTER UPDATE ON pool FOR EACH ROW EXECUTE FUNCTION watched.note_pool();

    CREATE TABLE watched.lease (
        n bigint GENERATED ALWAYS AS IDENTITY, at timestamptz DEFAULT clock_timestamp(), partition int,
        old bigint, new bigint
    );
    CREATE FUNCTION watched.note_lease() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO watched.lease (partition, old, new) VALUES (NEW.partition, OLD.incarnation, NEW.incarnation);
        RETURN NULL; END $$;
    CREATE TRIGGER watched AFTER UPDATE ON partition_lease FOR EACH ROW EXECUTE FUNCTION watched.note_lease();

    -- An incarnation's own lease thread deletes its row when it leaves; anybody else who does so takes over.
    CREATE TABLE watched.scheduler (
        n bigint GENERATED ALWAYS AS IDENTITY, at timestamptz DEFAULT clock_timestamp(), incarnation bigint,
        name text, pid int, what text
    );
    CREATE FUNCTION watched.note_scheduler() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP = 'INSERT' THEN
            INSERT INTO watched.scheduler (incarnation, name, pid, what)
            VALUES (NEW.incarnation, NEW.name, NEW.pid, 'joined');
        ELSE
            INSERT INTO watched.scheduler (incarnation, name, pid, what)
            VALUES (OLD.incarnation, OLD.name, OLD.pid,
                    CASE current_setting('application_name') WHEN 'aiosched lease' THEN 'left' ELSE 'taken over' END);
        END IF;
        RETURN NULL; END $$;
    CREATE TRIGGER watched AFTER INSERT OR DELETE ON scheduler FOR EACH ROW EXECUTE FUNCTION watched.note_scheduler();

    CREATE TABLE watched.variable (key text, what text);
    CREATE FUNCTION watched.note_variable() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO watched.variable (key, what)
        VALUES (coalesce(NEW.key, OLD.key), CASE TG_OP WHEN 'DELETE' THEN 'deleted' ELSE 'set' END);
        RETURN NULL; END $$;
    CREATE TRIGGER watched AFTER INSERT OR UPDATE OR DELETE ON variable
        FOR EACH ROW EXECUTE FUNCTION watched.note_variable();
"""

# Pools whose use differs from what the rows of one snapshot hold. Only unfinished runs can hold anything.
WRONG_POOLS = """
    SELECT format('pool %s says that %s slots are used, its tasks hold %s', p.name, p.used, coalesce(u.used, 0))
      FROM pool AS p
      LEFT JOIN (
        SELECT coalesce(v.spec -> 'tasks' -> ti.task_index ->> 'pool', 'default_pool') AS name,
               sum(coalesce((v.spec -> 'tasks' -> ti.task_index ->> 'pool_slots')::int, 1)) AS used
          FROM dag_run AS r
          JOIN task_instance AS ti ON ti.run_id = r.id
          JOIN dag_version AS v ON v.id = r.version_id
         WHERE r.state IN ('queued', 'running') AND ti.state IN ('queued', 'running', 'restarting', 'shutdown')
         GROUP BY 1
      ) AS u ON u.name = p.name
     WHERE p.used <> coalesce(u.used, 0)
"""
