"""The files of versions of bundles that come from nowhere else. Source: decision 33."""

from __future__ import annotations

from sqlalchemy import Column, LargeBinary, Table, Text

from aiosched.db.schema.columns import created_at, metadata

# Folders as they were, as zip archives.
bundle_snapshot = Table(
    "bundle_snapshot",
    metadata,
    Column("version", Text, primary_key=True),
    Column("archive", LargeBinary, nullable=False),
    created_at(),
)
