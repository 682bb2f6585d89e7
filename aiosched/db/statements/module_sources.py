"""Statements on the texts of modules that DAG files import. No decisions live here.

A text is stored once for all versions, under the content hash by which their `sources` name it, and before the first
version that names it. What is going to be named is marked as needed, so it is not removed in the meantime.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from aiosched.db.schema.tables import MODULE_SOURCE
from aiosched.db.server.connection import DatabaseConnection

# What is marked as needed since an hour ago cannot be removed for a day. Locked in the order of digests, as they are
# inserted: two schedulers never wait for each other. Index: primary key.
NEED: Final = """
    WITH marked AS (
        UPDATE module_source SET needed_at = now()
         WHERE digest IN (SELECT digest FROM module_source
                           WHERE digest = ANY($1::text[]) AND needed_at < now() - interval '1 hour'
                           ORDER BY digest FOR NO KEY UPDATE)
        RETURNING digest
    )
    SELECT digest FROM marked
     UNION ALL
    SELECT digest FROM module_source WHERE digest = ANY($1::text[]) AND needed_at >= now() - interval '1 hour'
"""


async def need(conn: DatabaseConnection, digests: Collection[str]) -> frozenset[str]:
    """Those of `digests` whose text is stored, and stays for a day at least."""
    return frozenset(row["digest"] for row in await conn.fetch(NEED, sorted(digests))) if digests else frozenset()


STORE: Final = f"""
    {MODULE_SOURCE.insert(("digest", "source"))} ORDER BY digest
    ON CONFLICT (digest) DO UPDATE SET needed_at = now()
"""


async def store(conn: DatabaseConnection, texts: Mapping[str, str]) -> None:
    """Store texts by content hash."""
    await conn.execute(STORE, list(texts), list(texts.values()))


# Index: primary key.
READ: Final = "SELECT digest, source FROM module_source WHERE digest = ANY($1::text[])"


async def read(conn: DatabaseConnection, digests: Collection[str]) -> dict[str, str]:
    """The texts with these content hashes; what is not kept is left out."""
    return {row["digest"]: row["source"] for row in await conn.fetch(READ, sorted(digests))} if digests else {}


# Reads the names of all versions once. Guard: what is marked as needed meanwhile is compared again, and stays.
DELETE_UNNAMED: Final = """
    WITH named AS MATERIALIZED (
        SELECT DISTINCT s.value AS digest
          FROM dag_version AS v
         CROSS JOIN LATERAL json_each_text(CASE json_typeof(v.sources) WHEN 'object' THEN v.sources ELSE '{}' END) AS s
    )
    DELETE FROM module_source AS m
     WHERE m.needed_at < now() - interval '1 day'
       AND NOT EXISTS (SELECT FROM named WHERE named.digest = m.digest)
"""


async def forget_unnamed(conn: DatabaseConnection) -> None:
    """Remove the texts that no version has named for a day."""
    await conn.execute(DELETE_UNNAMED)
