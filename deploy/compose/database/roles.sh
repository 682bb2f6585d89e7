#!/bin/sh
# The database's roles: aiosched_owner migrates and owns the tables; aiosched_scheduler and aiosched_web may do what they
# need (`aiosched db roles`), which the service `migrate` grants. The image of PostgreSQL runs this on an empty volume.
# It can run again: to set new passwords, and on a volume of a compose file whose role `aiosched` was a superuser.
set -eu

psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\set owner `cat /run/secrets/owner_password`
\set scheduler `cat /run/secrets/scheduler_password`
\set web `cat /run/secrets/web_password`
SELECT format('CREATE ROLE %I LOGIN', name)
  FROM unnest(ARRAY['aiosched_owner', 'aiosched_scheduler', 'aiosched_web']) AS name
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \gexec
ALTER ROLE aiosched_owner PASSWORD :'owner';
ALTER ROLE aiosched_scheduler PASSWORD :'scheduler';
ALTER ROLE aiosched_web PASSWORD :'web';
SELECT format('ALTER DATABASE %I OWNER TO aiosched_owner', current_database()) \gexec
SELECT format('ALTER %s %s OWNER TO aiosched_owner', CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, oid::regclass)
  FROM pg_class
 WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v') \gexec
SQL
