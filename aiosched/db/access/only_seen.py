"""Queries of SQLAlchemy for people who may see some DAGs only. Schedulers do without SQLAlchemy: see visible.py."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Select, Text, any_, bindparam, cast

from aiosched.db.access.visibility import Seen


def only_seen(query: Select[Any], dag_id: ColumnElement[Any], seen: Seen) -> Select[Any]:
    """The query for these DAGs only."""
    if seen is None:
        return query
    return query.where(dag_id == any_(cast(bindparam(None, sorted(seen), ARRAY(Text)), ARRAY(Text))))
