"""The first schema: all of it, as this version has it. A new database gets this and no other revision.

Revision 0203, of version 0.2.0. Further files of this folder migrate from it what an older version made; a new database
is only marked as having them (`aiosched.db.server.migrate`). Lower numbers were used during development, and are not
migrated.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy.schema import CreateIndex, CreateTable

from aiosched.db.schema.functions import STATEMENTS
from aiosched.db.schema.schema import metadata

revision = "0203"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in metadata.sorted_tables:
        op.execute(CreateTable(table))
        for index in sorted(
            table.indexes, key=lambda index: str(index.name)
        ):  # a set; between equals the first is used
            op.execute(CreateIndex(index))
    for statement in STATEMENTS:
        op.execute(statement)
