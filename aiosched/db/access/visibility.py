"""Lists for people who may see some DAGs only: a condition on the DAG's id in SQL, so that pages stay full.

Whoever may see everything gets the statement without it. Which DAGs somebody sees is worked out in web/auth.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from aiosched.db.server.connection import Queryable

Seen = Collection[str] | None  # ids of DAGs; None: all
_MARK: Final = "[seen]"
_NUMBER: Final = re.compile(r"\$(\d+)")


@dataclass(frozen=True, slots=True)
class ScopedStatement:
    """A statement whose text has `[seen]` where a condition can be added to a WHERE."""

    whole: str
    partial: str

    @classmethod
    def of(cls, text: str, condition: str = "dag_id = ANY (?::text[])") -> ScopedStatement:
        """The two forms; `?` in the condition is the list of the DAGs."""
        number = max(map(int, _NUMBER.findall(text)), default=0) + 1
        return cls(text.replace(_MARK, ""), text.replace(_MARK, f"AND {condition.replace('?', f'${number}')}"))

    async def fetch(self, conn: Queryable, *values: Any, seen: Seen) -> list[Any]:
        """The rows, of these DAGs only."""
        if seen is None:
            return list(await conn.fetch(self.whole, *values))
        return list(await conn.fetch(self.partial, *values, list(seen)))
