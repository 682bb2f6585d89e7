"""The team of a DAG file, which follows from where it lies: SQL for other statements. Makes no decisions.

Of the folders that hold a file the longest one decides. Source: docs/access.md.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from aiosched.db.server.connection import DatabaseConnection


def team_of(file: str, bundle: str) -> str:
    """SQL for the team of a file: columns with its stored name, and with its bundle (NULL: the DAGs folder)."""
    path = f"CASE WHEN {bundle} IS NULL THEN {file} ELSE substr({file}, length({bundle}) + 2) END"
    return f"""(
               SELECT f.team FROM team_folder AS f
                WHERE {file} IS NOT NULL AND f.bundle = coalesce({bundle}, '')
                  AND (f.folder = '' OR starts_with({path}, f.folder || '/'))
                ORDER BY length(f.folder) DESC LIMIT 1)"""


# The name of a file of a bundle begins with that of the bundle and a colon (aiosched.bundles.names).
TEAMS_OF_FILES: Final = f"""
    SELECT file, team
      FROM (SELECT n.file, {team_of("n.file", "nullif(split_part(n.file, ':', 1), n.file)")} AS team
              FROM unnest($1::text[]) AS n (file)) AS found
     WHERE team IS NOT NULL
"""


async def teams_of_files(conn: DatabaseConnection, files: Collection[str]) -> dict[str, str]:
    """The teams of DAG files by their stored names; those of nobody are absent."""
    return {row["file"]: row["team"] for row in await conn.fetch(TEAMS_OF_FILES, list(files))}
