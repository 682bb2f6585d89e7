"""The schema of a next version: a migration after the newest one, for tests of what migrates an older schema."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from aiosched.db.server import migrate, migration_sql, schema_version
from aiosched.db.server.schema_version import HEAD, MIGRATIONS, REVISIONS

NEXT: Final = f"{int(HEAD) + 1:04}"
_MIGRATION: Final = f"""
from alembic import op

revision = "{NEXT}"
down_revision = "{HEAD}"


def upgrade():
    op.execute("ALTER TABLE dag_run ADD COLUMN next_schema text")
    op.execute("ALTER TABLE asset_event ADD COLUMN next_schema text DEFAULT 'added'")
"""


def add_next_schema(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """From now on `NEXT` is the revision that aiosched needs; `folder` is for its migrations."""
    migrations = folder / "migrations"
    shutil.copytree(MIGRATIONS, migrations)
    (migrations / "versions" / f"{NEXT}_next.py").write_text(_MIGRATION)
    monkeypatch.setattr(schema_version, "MIGRATIONS", migrations)
    for module in (schema_version, migrate):
        monkeypatch.setattr(module, "REVISIONS", (*REVISIONS, NEXT))
    for module in (schema_version, migrate, migration_sql):
        monkeypatch.setattr(module, "HEAD", NEXT)
