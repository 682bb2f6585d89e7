"""How Alembic reaches the database: over the connection that `aiosched.db.server.migrate` hands it."""

from __future__ import annotations

from alembic import context

from aiosched.db.schema.schema import metadata
from aiosched.db.server.schema_version import works_with_comment


def run() -> None:
    """Run the pending revisions inside the caller's transaction, or write them down as SQL."""
    if context.is_offline_mode():  # `aiosched db migrate --sql`, which opens the transaction
        context.configure(
            dialect_name="postgresql",
            target_metadata=metadata,
            literal_binds=True,
            dialect_opts={"paramstyle": "named"},
            transactional_ddl=False,
        )
        context.run_migrations()
        context.execute(works_with_comment())
        return
    connection = context.config.attributes.get("connection")
    if connection is None:
        raise RuntimeError("Migrations run through `aiosched db migrate` only: it provides the connection.")
    context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=False)
    with context.begin_transaction():
        context.run_migrations()
        context.execute(works_with_comment())


run()
