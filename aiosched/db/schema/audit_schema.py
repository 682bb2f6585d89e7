"""The tables of the audit log, and what the application's role may do with them.

Nobody changes an entry: a trigger refuses UPDATE and TRUNCATE, also by the owner of the table, and DELETE of entries
younger than `SHORTEST_DAYS`. Old ones are removed by the function `purge_audit_log`, which runs as its owner: the role
of the application needs no DELETE. Another trigger adds an entry when a request in `command` is answered. All are in
migrations/versions/0017_audit_log.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sqlalchemy import JSON, BigInteger, Column, Index, Integer, Table, Text, func, text

from aiosched.db.schema.columns import identity, instant, metadata

SHORTEST_DAYS: Final = 7  # that entries are kept

# The audit log. Entries are only added.
audit_log: Final = Table(
    "audit_log",
    metadata,
    identity(),
    instant("at", nullable=False, server_default=func.now()),
    Column("kind", Text, nullable=False),  # see core/audit/kinds.py
    Column("who", Text, nullable=False),
    Column("address", Text),
    Column("session_id", BigInteger),  # web_session.id, which may be gone
    Column("token_id", BigInteger),  # api_token.id, which may be gone
    Column("object", Text),  # the name of what it is about: a user, a variable, a run …
    Column("dag_id", Text),
    Column("result", Text, nullable=False, server_default=text("'done'")),
    Column("detail", JSON, nullable=False, server_default=text("'{}'")),
    Column("times", Integer, nullable=False, server_default=text("1")),  # entries that this one stands for
    Column("command_id", BigInteger),  # command.id, which may be gone
    Index(None, "at"),
    Index(None, "dag_id", "id"),
    Index(None, "who", "id"),
)

# What is refused again and again is counted here, and written down once a minute. See db/audit/repeated.py.
audit_repeated: Final = Table(
    "audit_repeated",
    metadata,
    Column("key", Text, primary_key=True),
    instant("until", nullable=False),
    Column("times", Integer, nullable=False),  # beside the first one, which has an entry already
    Column("kind", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("address", Text),
    Column("object", Text),
    Column("dag_id", Text),
    Column("detail", JSON, nullable=False),
)

# Entries that were not sent to syslog yet; only written while there is a row in `audit_receiver`.
audit_unsent: Final = Table("audit_unsent", metadata, Column("id", BigInteger, primary_key=True, autoincrement=False))
audit_receiver: Final = Table(
    "audit_receiver",
    metadata,
    Column("name", Text, primary_key=True),
    instant("since", nullable=False, server_default=func.now()),
)

# For the role of the application; the tables belong to the role that migrates.
GRANTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "audit_log": ("SELECT", "INSERT"),
        "audit_repeated": ("SELECT", "INSERT", "UPDATE", "DELETE"),
        "audit_unsent": ("SELECT", "INSERT", "UPDATE", "DELETE"),
        "audit_receiver": ("SELECT", "INSERT", "DELETE"),
    }
)
FUNCTION_GRANTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"purge_audit_log(timestamptz, integer)": ("EXECUTE",)}
)
