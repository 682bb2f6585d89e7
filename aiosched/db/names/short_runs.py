"""Finding a run by a short form of its id. Whole ids and dates are found in db/queries/queries.py."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Select, or_, select

from aiosched.db.schema.schema import dag_run

SHORTEST: Final = 4  # characters of a short form
_NEWEST: Final = 10_000  # runs of a DAG among which a short form is looked for
_MOST: Final = 4  # of several that are named


def named_shortly(dag_id: str, short: str) -> Select[Any]:
    """The ids of a few runs with this short form, newest first.

    It is the beginning of the id, of what follows its type, or of its random suffix. The newest runs of the DAG are
    read by the index of (DAG, id).
    """
    newest = (
        select(dag_run.c.id, dag_run.c.run_id)
        .where(dag_run.c.dag_id == dag_id)
        .order_by(dag_run.c.id.desc())
        .limit(_NEWEST)
        .subquery("newest")
    )
    run_id = newest.c.run_id
    return (
        select(run_id)
        .where(or_(run_id.startswith(short, autoescape=True), run_id.contains(f"_{short}", autoescape=True)))
        .order_by(newest.c.id.desc())
        .limit(_MOST)
    )
