"""The database: tables, migrations, named statements, connections and the embedded server.

    server/      connections, migrating, a PostgreSQL of our own    schema/   the tables
    statements/  what the scheduler says, by subject                         queries/  what people and tasks read
    people/      accounts, variables, connections, pools, notes, states      crypto/   keys and sealed texts
    upkeep/      removing old history, counting again, backups

Neither SQLAlchemy nor Alembic is imported before something needs it.
"""

from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.embedded import EmbeddedPostgres, embedded_data_dir, embedded_dsn
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_connection_failure, is_retryable
from aiosched.db.server.migrate import migrate
from aiosched.db.server.schema_version import HEAD, check_schema, current_revision

__all__ = [
    "HEAD",
    "Database",
    "DatabaseConnection",
    "EmbeddedPostgres",
    "check_schema",
    "current_revision",
    "embedded_data_dir",
    "embedded_dsn",
    "is_connection_failure",
    "is_retryable",
    "migrate",
]
