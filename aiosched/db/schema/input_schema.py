"""The table of what tasks ask people."""

from __future__ import annotations

from typing import Final

from sqlalchemy import JSON, Column, DateTime, Index, SmallInteger, Table, Text

from aiosched.db.schema.columns import instant, metadata, task_key

# The newest question of a task instance. It waits while its instance is deferred in the same try; the task itself
# stores how it was answered.
human_input: Final = Table(
    "human_input",
    metadata,
    *task_key(try_number=False),
    Column("try_number", SmallInteger, nullable=False),
    Column("task_id", Text, nullable=False),
    Column("question", JSON, nullable=False),
    Column("asked_at", DateTime(timezone=True), nullable=False),
    instant("expires_at"),  # then nobody can answer any more
    Column("answer", JSON),
    Column("answered_by", Text),  # as in the audit log; NULL with an answer: the defaults, since nobody answered
    instant("answered_at"),
    Index(None, "asked_at"),
)
