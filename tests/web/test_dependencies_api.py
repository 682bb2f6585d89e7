"""The graph of what depends on what, and the freshness of assets, as the API answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx2
import pytest

from aiosched.core.assets.conditions import AssetReference
from aiosched.core.graph.dependencies import DagDependency, DependencyKind
from aiosched.db.assets.assets import NewAssetEvent, record_events, store_references
from aiosched.db.assets.dependencies import store_dependencies
from aiosched.db.server.engine import Database
from tests.cli.records import NOON, add_dag, add_run

HOUR = timedelta(hours=1)
T, W, M = DependencyKind.TRIGGERS, DependencyKind.WAITS_FOR, DependencyKind.MARKS


@pytest.fixture
async def shop(db: Database) -> None:
    """load → orders → report → archive; report triggers something unknown; sum waits for report; load starts `gone`."""
    versions = {dag_id: await add_dag(db, dag_id) for dag_id in ("load", "report", "archive", "sum", "alone")}
    run = await add_run(db, "load", versions["load"], "r1", state="failed", run_after=NOON)
    orders = ("asset", "orders", "s3://shop/orders")
    mentions = {
        "load": (AssetReference("outlet", *orders, "save", fresh_within=3600.0),),
        "report": (AssetReference("schedule", "uri", "s3://shop/orders"),),
        "sum": (AssetReference("inlet", "name", "orders", "", "read"),),
    }
    dependencies = {
        "report": (
            DagDependency(T, "start", "archive"),
            DagDependency(T, "again", "archive"),
            DagDependency(T, "x", ""),
        ),
        "sum": (DagDependency(W, "wait", "report"),),
        "load": (DagDependency(M, "mark", "report"), DagDependency(T, "old", "gone")),
    }
    async with db.transaction() as conn:
        await store_references(conn, mentions, now=NOON)
        await store_dependencies(conn, dependencies)
        await record_events(conn, [NewAssetEvent("orders", "", "{}", None, NOON, "load", run, 1, -1)])


def edges_of(graph: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(edge["source"], edge["target"], edge["kind"]) for edge in graph["edges"]}


UP = {("dag:load", "asset:orders", "produces")}
DOWN = {
    ("asset:orders", "dag:report", "scheduled_on"),
    ("asset:orders", "dag:sum", "reads"),
    ("dag:report", "dag:archive", "triggers"),
    ("dag:report", "unknown:triggers:report", "triggers"),
    ("dag:report", "dag:sum", "waits_for"),
}
OTHER = {("dag:load", "dag:report", "waits_for"), ("dag:load", "dag:gone", "triggers")}


@pytest.mark.usefixtures("shop")
async def test_dependencies_are_found_from_each_side(api: httpx2.AsyncClient) -> None:
    cases: list[tuple[str, set[tuple[str, str, str]]]] = [
        ("", UP | DOWN | OTHER),
        ("around=asset:orders", UP | DOWN),
        ("around=asset:orders&direction=upstream", UP),
        ("around=asset:orders&direction=downstream", DOWN),
        ("around=dag:archive&direction=downstream", set()),
        ("around=dag:alone", set()),
        ("search=archive", {("dag:report", "dag:archive", "triggers")}),
        ("search=nothing", set()),
    ]
    for query, expected in cases:
        graph = (await api.get("dependencies?" + query)).json()

        assert (query, edges_of(graph)) == (query, expected)
        assert graph["is_complete"], query
        assert {end for edge in expected for end in edge[:2]} <= {node["id"] for node in graph["nodes"]}, query


@pytest.mark.usefixtures("shop")
async def test_nodes_have_states_and_edges_their_tasks(api: httpx2.AsyncClient) -> None:
    graph = (await api.get("dependencies")).json()
    nodes = {node["id"]: node for node in graph["nodes"]}
    tasks = {(edge["source"], edge["target"]): edge["task_ids"] for edge in graph["edges"]}

    assert (nodes["dag:load"]["state"], nodes["dag:load"]["run_id"]) == ("failed", "r1")
    assert (nodes["dag:gone"]["exists"], nodes["dag:report"]["exists"]) == (False, True)
    assert (nodes["unknown:triggers:report"]["kind"], nodes["unknown:triggers:report"]["name"]) == ("unknown", "")
    assert (nodes["asset:orders"]["freshness"], nodes["asset:orders"]["state"]) == ("late", None)
    assert sorted(tasks["dag:report", "dag:archive"]) == ["again", "start"]
    assert tasks["asset:orders", "dag:report"] == []


@pytest.mark.usefixtures("shop")
async def test_an_answer_is_bounded_and_says_so(api: httpx2.AsyncClient) -> None:
    for query in ("limit=2", "limit=2&around=asset:orders", "limit=1&search=report"):
        graph = (await api.get("dependencies?" + query)).json()
        assert len(graph["edges"]) == int(query[6]), query
        assert not graph["is_complete"], query

    missing = [await api.get("dependencies", params={"around": around}) for around in ("dag:none", "asset:none", "x")]
    assert [answer.status_code for answer in missing] == [404, 404, 422]


@pytest.mark.usefixtures("shop")
async def test_an_asset_says_whether_it_is_fresh_and_who_gave_the_last_event(
    db: Database, api: httpx2.AsyncClient
) -> None:
    late = (await api.get("assets/orders")).json()
    lists = {state: (await api.get("assets", params={"freshness": state})).json() for state in ("late", "fresh")}

    assert (late["freshness"], late["fresh_within"]) == ("late", 3600.0)
    assert late["expected_by"] == (NOON + HOUR).isoformat().replace("+00:00", "Z")
    assert (late["last_dag_id"], late["last_run_id"], late["last_task_id"]) == ("load", "r1", "load")
    assert [item["name"] for item in lists["late"]["items"]] == ["orders"]
    assert (lists["fresh"]["items"], lists["fresh"]["next_cursor"]) == ([], None)
