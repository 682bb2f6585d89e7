"""What a database may answer, by class of SQLSTATE, and what an administrator may do to it."""

from __future__ import annotations

import inspect

import asyncpg

from aiosched.db.server.failures import is_about_content

ANSWERS: dict[str, type[asyncpg.PostgresError]] = {
    getattr(error, "sqlstate", ""): error
    for _, error in inspect.getmembers(asyncpg.exceptions, inspect.isclass)
    if issubclass(error, asyncpg.PostgresError) and getattr(error, "sqlstate", None)
}
CLASSES: dict[str, type[asyncpg.PostgresError]] = {state[:2]: ANSWERS[state] for state in sorted(ANSWERS, reverse=True)}
UNKNOWN = asyncpg.exceptions.UnknownPostgresError
EVERY: list[type[asyncpg.PostgresError]] = [*CLASSES.values(), UNKNOWN]
OF_THE_DATABASE = [kind for kind in EVERY if not is_about_content(kind("said"))]  # not of what it was asked to store

# What an administrator does, how it is undone, and what is said; {db} and {role} are those of who connects.
CONDITIONS = {
    "no connections": (
        "ALTER DATABASE {db} ALLOW_CONNECTIONS false",
        "ALTER DATABASE {db} ALLOW_CONNECTIONS true",
        "not currently accepting connections",
    ),
    "read-only": (
        "ALTER DATABASE {db} SET default_transaction_read_only = on",
        "ALTER DATABASE {db} RESET default_transaction_read_only",
        "read-only",
    ),
    "renamed": ("ALTER DATABASE {db} RENAME TO {db}_away", "ALTER DATABASE {db}_away RENAME TO {db}", "{db}"),
    "no login": ("ALTER ROLE {role} NOLOGIN", "ALTER ROLE {role} LOGIN", "not permitted to log in"),
    "none allowed": (
        "ALTER ROLE {role} CONNECTION LIMIT 0",
        "ALTER ROLE {role} CONNECTION LIMIT -1",
        "connection",
    ),
    "full": ("ALTER ROLE {role} CONNECTION LIMIT 1", "ALTER ROLE {role} CONNECTION LIMIT -1", "connection"),
    "not granted": (
        "REVOKE CONNECT ON DATABASE {db} FROM PUBLIC, {role}",
        "GRANT CONNECT ON DATABASE {db} TO PUBLIC, {role}",
        "lacks a right",
    ),
}
OF_A_DATABASE = [name for name, words in CONDITIONS.items() if "{role}" not in "".join(words)]  # superusers, too
