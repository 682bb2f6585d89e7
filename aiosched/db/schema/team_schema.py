"""The tables of teams. What belongs to a team has its name in a column `team`; NULL there: it belongs to nobody."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, ForeignKey, Index, Table, Text, text

from aiosched.db.schema.columns import created_at, metadata

team: Final = Table(
    "team",
    metadata,
    Column("name", Text, primary_key=True),
    Column("description", Text),
    created_at(),
)

# Where the DAG files of a team lie: a folder (POSIX, relative, '' for all) of a bundle ('' for the DAGs folder). Of two
# folders that hold a file, the longer one decides.
team_folder: Final = Table(
    "team_folder",
    metadata,
    Column("bundle", Text, primary_key=True, server_default=text("''")),
    Column("folder", Text, primary_key=True, server_default=text("''")),
    Column("team", Text, ForeignKey("team.name", ondelete="CASCADE"), nullable=False),
    created_at(),
    Index(None, "team"),
)
