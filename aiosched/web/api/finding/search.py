"""The search: DAGs, tasks, runs, assets and pools by what somebody types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, StringConstraints

from aiosched.core.values.matching import Match, match, words_of
from aiosched.db.finding import names
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.owned import seen_things
from aiosched.web.requests.request_client import TheRequestClient

router: APIRouter = APIRouter(tags=["Search"])

_MOST: Final = 12  # of one kind
Kind = Literal["dag", "task", "run", "asset", "pool"]
_Typed = Annotated[str, StringConstraints(max_length=100, pattern=r"^[^\x00]*$")]


class SearchHit(BaseModel):
    """Something that was found. `name` matches what was typed, or `display_name`, which is shown in place of it (null:
    the name is); `match` is 0 for the whole name, 4 for its letters."""

    kind: Kind
    name: str
    display_name: str | None = None
    dag_id: str | None = None
    state: str | None = None
    match: int


class SearchResult(BaseModel):
    """What was found, the best matches first."""

    items: list[SearchHit]


@router.get("/search")
@allow(Role.VIEWER, RoleScope.SEEN)
async def search(
    request_client: TheRequestClient,
    visible: TheVisible,
    q: Annotated[
        _Typed, Query(description="words, all of which must match; of a DAG also the letters of its id in order")
    ] = "",
) -> SearchResult:
    """DAGs, tasks, the newest runs, assets and pools whose names have the words, at most 12 of each."""
    words = words_of(q)
    if not words:
        return SearchResult(items=[])
    async with request_client.db.acquire() as conn:
        dags = await names.find_dags(conn, words, seen=visible.dags)
        tasks = await names.find_tasks(conn, words, seen=visible.dags)
        runs = await names.find_runs(conn, words, seen=visible.dags)
        assets = await names.find_assets(conn, words, seen=visible.dags)
        pools = await names.find_pools(conn, words)
    kinds = (
        _best(
            words, (SearchName("dag", each.dag_id, state=each.state, display_name=each.display_name) for each in dags)
        ),
        _best(words, (SearchName("task", task_id, dag_id) for dag_id, task_ids in tasks for task_id in task_ids)),
        _best(words, (SearchName("run", each.run_id, each.dag_id, each.state) for each in runs)),
        _best(words, (SearchName("asset", name, context=uri) for name, uri in assets)),
        _best(
            words,
            (SearchName("pool", name) for name in await seen_things(request_client.db, visible, "pool", pools, str)),
        ),
    )
    return SearchResult(items=sorted(chain(*kinds), key=lambda each: each.match))


@dataclass(frozen=True, slots=True)
class SearchName:
    """A name that may match; `context` are other words of it that may be typed, such as a DAG's id."""

    kind: Kind
    name: str
    dag_id: str | None = None
    state: str | None = None
    context: str = ""
    display_name: str | None = None

    def match(self, words: tuple[str, ...]) -> Match | None:
        """How well the name matches, or the display name."""
        found = [match(words, self.name, self.dag_id or self.context)]
        if self.display_name is not None:
            found.append(match(words, self.display_name, self.name))
        return min((how for how in found if how is not None), default=None)


def _best(words: tuple[str, ...], candidates: Iterable[SearchName]) -> list[SearchHit]:
    """Those that match, the best and shortest first; equal ones stay in their order."""
    matches = ((one.match(words), one) for one in candidates)
    found = [(how, one) for how, one in matches if how is not None]
    found.sort(key=lambda each: (each[0], 0 if each[1].kind == "run" else len(each[1].name)))
    return [
        SearchHit(
            kind=one.kind, name=one.name, display_name=one.display_name, dag_id=one.dag_id, state=one.state, match=how
        )
        for how, one in found[:_MOST]
    ]
