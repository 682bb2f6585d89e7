"""The database: tables, migrations, named statements, connections and the embedded server.

    schema.py    the tables                        engine.py    pool, single connections, engine
    migrate.py   which schema is there, and needed embedded.py  a PostgreSQL of our own
    admin.py     info, reset, backup, shell        failures.py  what goes wrong, in one clear line
    journal.py, runs.py, ownership.py, inbox.py, dags.py, queries.py, pools.py   statements by subject

Neither SQLAlchemy nor Alembic is imported before something needs it.
"""

from aiosched.db.server.embedded import EmbeddedPostgres, embedded_data_dir, embedded_dsn
from aiosched.db.server.engine import Connection, Database
from aiosched.db.server.failures import is_connection_failure, is_retryable
from aiosched.db.server.migrate import HEAD, check_schema, current_revision, migrate

__all__ = [
    "HEAD",
    "Connection",
    "Database",
    "EmbeddedPostgres",
    "check_schema",
    "current_revision",
    "embedded_data_dir",
    "embedded_dsn",
    "is_connection_failure",
    "is_retryable",
    "migrate",
]
