"""Where teams meet: a shared pool, an asset, markers between their DAGs, one file, groups of a provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Final

import httpx2
import msgspec
import pytest

from aiosched.clock import FakeClock
from aiosched.config import Settings, WebSettings
from aiosched.core.access.grants import RoleGrant
from aiosched.core.access.roles import Role
from aiosched.core.graph.spec import TaskSpec
from aiosched.core.why.explanation import Explanation, Gate, Holder, Verdict
from aiosched.db.access import grants as stored_grants
from aiosched.db.access import guarded_dags
from aiosched.db.people import accounts
from aiosched.db.people import teams as stored_teams
from aiosched.db.server.engine import Database
from aiosched.parsing.store import register_specs, store_results
from aiosched.web.api import why
from aiosched.web.app import make_app
from aiosched.web.auth.access import Principal
from aiosched.web.auth.known_dags import KnownDags
from aiosched.web.auth.passwords import hash_token, new_token
from aiosched.web.auth.visibility import Visible
from aiosched.web.requests import dependents
from aiosched.web.requests.request_client import RequestClient
from tests.cli.records import NOON, add_dag, add_file, add_run, add_task, insert
from tests.parsing.builders import a_dag, a_result

THEIRS: Final = "zeppelin"


@pytest.fixture
async def member(db: Database) -> AsyncIterator[httpx2.AsyncClient]:
    """An operator of the team `ours`, by a token; the folders `ours` and `theirs` are those of two teams."""
    for team, folder in (("ours", "ours"), ("theirs", THEIRS)):
        await stored_teams.create_team(db, team)
        await stored_teams.add_folder(db, team, folder)
    await accounts.create_user(db, "ann", "none", "hash")
    await stored_grants.add_grant(db, "ann", RoleGrant.parse("operator@team:ours"))
    token = new_token()
    await accounts.create_token(db, "ann", "test", hash_token(token), "admin", None)
    transport = httpx2.ASGITransport(app=make_app(RequestClient(db, Settings(web=WebSettings(auth="password")))))
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(transport=transport, base_url="https://x/api/v1/", headers=headers) as client:
        yield client


async def add_team_dag(db: Database, dag_id: str, team: str, folder: str, **columns: Any) -> int:
    return await add_dag(db, dag_id, file=f"{folder}/{dag_id}.py", team=team, **columns)


async def test_the_queue_of_a_shared_pool_has_the_own_tasks_only(db: Database, member: httpx2.AsyncClient) -> None:
    tasks = (TaskSpec(task_id="t", operator="X", pool="shared"),)
    for dag_id, team, folder in (("ours", "ours", "ours"), (f"{THEIRS}_dag", "theirs", THEIRS)):
        run = await add_run(db, dag_id, await add_team_dag(db, dag_id, team, folder, tasks=tasks), f"{folder}_run")
        await add_task(db, run, 0, "running", try_number=1, start_date=NOON, queued_at=NOON)
    async with db.acquire() as conn:
        await insert(conn, "pool", {"name": "shared", "slots": 2, "used": 2})

    queue = await member.get("pools/shared/queue")

    assert [user["dag_id"] for user in queue.json()["holders"]] == ["ours"]
    assert THEIRS not in queue.text


async def test_why_counts_who_holds_a_slot_and_names_the_own_ones(db: Database) -> None:
    holders = tuple(
        Holder(dag_id=dag_id, run_id=f"{dag_id}_run", task_id=f"{dag_id}_task") for dag_id in ("ours", THEIRS)
    )
    gate = Gate(name="pool shared", verdict=Verdict.WAIT, detail="2 of 2 slots held", holders=holders)
    found = Explanation(subject="ours", state="scheduled", summary="waits", gates=(gate,), at=NOON)
    visible = Visible(Principal("ann", Role.NONE), KnownDags(db), frozenset({"ours"}))

    shown = why._shown(found, visible)

    assert [(holder.dag_id, holder.label) for holder in shown.gates[0].holders] == [
        ("ours", "ours ours_run ours_task"),
        ("", "a task that you may not see"),
    ]
    assert THEIRS not in shown.model_dump_json()


async def test_an_asset_of_two_teams_shows_each_its_own_side(db: Database, member: httpx2.AsyncClient) -> None:
    await add_team_dag(db, "ours", "ours", "ours")
    await add_team_dag(db, f"{THEIRS}_dag", "theirs", THEIRS)
    async with db.acquire() as conn:
        asset = await insert(conn, "asset", {"name": "orders", "uri": "orders"}, returning="id")
        for dag_id, role in (("ours", "schedule"), (f"{THEIRS}_dag", "outlet"), (f"{THEIRS}_dag", "schedule")):
            await insert(conn, "asset_reference", {"dag_id": dag_id, "name": "orders", "task_id": "", "role": role,
                                                   "kind": "asset", "uri": "orders"})  # fmt: skip
        await insert(conn, "asset_event", {"asset_id": asset, "timestamp": NOON, "source_dag_id": f"{THEIRS}_dag"})

        checks = {"dag_id": f"{THEIRS}_dag", "name": "orders", "task_id": "t", "role": "inlet", "kind": "asset"}
        await insert(conn, "asset_reference", checks | {"is_check": True})
        result = {"asset_id": asset, "dag_id": f"{THEIRS}_dag", "task_id": "t", "run_id": 1, "map_index": -1}
        await insert(conn, "asset_check", result | {"try_number": 1, "status": "fail", "message": THEIRS})

        others = {"kind": "triggers", "task_id": "start", "other_dag_id": f"{THEIRS}_dag"}
        await insert(conn, "dag_dependency", {"dag_id": "ours"} | others)
        await insert(conn, "dag_dependency", {"dag_id": f"{THEIRS}_dag"} | others | {"other_dag_id": "ours"})

    paths = (
        "assets",
        "assets/orders",
        "assets/orders/events",
        "asset-lineage",
        "dependencies",
        "dependencies?search=o",
    )
    paths = (*paths, "dependencies?around=dag:ours", "dependencies?around=asset:orders")
    seen = [await member.get(path) for path in paths]
    foreign = await member.get("dependencies", params={"around": f"dag:{THEIRS}_dag"})
    emitted = await member.post("assets/orders/events", json={})
    checks = await member.get("asset-checks", params={"name": "orders"})

    assert [answer.status_code for answer in seen] == [200] * len(paths)
    assert THEIRS not in "".join(answer.text for answer in seen)
    for answer in seen[4:]:
        (edge,) = answer.json()["edges"]
        assert (edge["source"], edge["target"], edge["kind"]) == ("asset:orders", "dag:ours", "scheduled_on")
    assert foreign.status_code == 404
    assert (seen[1].json()["producers"], seen[1].json()["consumers"]) == ([], ["ours"])
    assert seen[2].json()["items"][0]["dag_id"] is None
    assert (emitted.status_code, THEIRS in emitted.text) == (403, False)
    assert (checks.json(), seen[1].json()["check"]) == ({"checks": []}, None)


async def test_markers_do_not_clear_what_one_may_not_clear(
    db: Database, member: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_team_dag(db, "ours", "ours", "ours")
    await add_team_dag(db, f"{THEIRS}_dag", "theirs", THEIRS)
    reached = {
        "dag_id": f"{THEIRS}_dag",
        "run_id": "r",
        "task_id": "t",
        "map_index": -1,
        "state": None,
        "try_number": 1,
    }
    found = {"count": 0, "runs": [], "states": {}, "instances": [], "dependents": [reached]}

    async def preview(*_: Any, **__: Any) -> dict[str, Any]:
        return found

    monkeypatch.setattr(RequestClient, "preview", preview)
    shown = await member.post("dags/ours/clear", json={"dry_run": True})
    refused = await member.post("dags/ours/clear", json={})

    assert dependents.NAMED == 1_000  # as many as a preview names
    assert (shown.status_code, shown.json()["dependents"]) == (200, [])
    assert (refused.status_code, refused.json()["code"]) == (403, "role-too-low")
    assert THEIRS not in shown.text + refused.text


async def test_an_editor_of_a_team_creates_things_for_it_and_for_nobody_else(
    db: Database, member: httpx2.AsyncClient
) -> None:
    await stored_grants.add_grant(db, "ann", RoleGrant.parse("editor@team:ours"))
    teams = ("ours", "theirs", "", None)
    answers = [await member.put(f"pools/p{n}", json={"slots": 1, "team": team}) for n, team in enumerate(teams)]
    moved = await member.put("pools/p0", json={"slots": 2, "team": "theirs"})
    kept = await member.put("pools/p0", json={"slots": 3})

    assert [answer.status_code for answer in answers] == [200, 403, 403, 403]
    assert (moved.status_code, kept.json()["team"], kept.json()["slots"]) == (403, "ours", 3)


async def test_a_file_of_two_teams_dags_shows_the_own_one(db: Database, member: httpx2.AsyncClient) -> None:
    await add_team_dag(db, "ours", "ours", "ours")
    await add_file(db, "common/all.py", dag_ids=["ours", f"{THEIRS}_dag"])
    await add_file(db, f"{THEIRS}/bad.py", error="NameError")
    await add_file(db, "ours/bad.py", error="NameError")

    files = (await member.get("files")).json()["items"]
    errors = (await member.get("import-errors")).json()["items"]

    assert [(file["file"], file["dag_ids"]) for file in files] == [("common/all.py", ["ours"]), ("ours/bad.py", [])]
    assert [error["file"] for error in errors] == ["ours/bad.py"]


async def test_counts_of_the_first_page_are_those_of_the_own_dags(db: Database, member: httpx2.AsyncClient) -> None:
    for dag_id, team, folder in (("ours", "ours", "ours"), (f"{THEIRS}_dag", "theirs", THEIRS)):
        run = await add_run(db, dag_id, await add_team_dag(db, dag_id, team, folder), "r")
        await add_task(db, run, 0, "running", try_number=1, start_date=NOON)
        await add_task(db, run, 1, "queued", try_number=1, queued_at=NOON + timedelta(minutes=len(dag_id)))

    counts = (await member.get("summary")).json()["counts"]

    assert (counts["running"], counts["queued"], counts["running_runs"]) == (1, 1, 1)
    assert counts["oldest_queued_at"] == "2026-11-20T12:04:00Z"


async def test_the_team_of_a_dag_is_that_of_the_folder_in_which_parsing_found_it(
    db: Database, clock: FakeClock
) -> None:
    for team, folder in (("sales", "sales"), ("ml", "sales/ml"), ("git", "repo:sales")):
        await stored_teams.create_team(db, team)
        await stored_teams.add_folder(db, team, folder)
    files = {"a": "sales/a.py", "b": "sales/ml/b.py", "c": "repo:sales/c.py", "d": "other/d.py", "e": "salesx/e.py"}
    results = [
        msgspec.structs.replace(
            a_result(file, a_dag(name, tags=("git",), access_control={"guests": "viewer"})),
            bundle="repo" if ":" in file else None,
        )
        for name, file in files.items()
    ]

    async with db.transaction() as conn:
        await store_results(conn, results, now=clock.now(), paused_at_creation=False)
        await register_specs(conn, [a_dag("registered").spec], now=clock.now())
    stored = {dag.dag_id: dag.place and dag.place.team for dag in await guarded_dags.read_guarded_dags(db)}
    await stored_teams.add_folder(db, "git", "")
    await stored_teams.remove_folder(db, "ml", "sales/ml")
    moved = {dag.dag_id: dag.place and dag.place.team for dag in await guarded_dags.read_guarded_dags(db)}

    controlled = await guarded_dags.read_guarded_dag(db, "a")
    assert controlled is not None
    assert controlled.control == {"guests": Role.VIEWER}
    assert stored == {"a": "sales", "b": "ml", "c": "git", "d": None, "e": None, "registered": None}
    assert moved == {"a": "sales", "b": "sales", "c": "git", "d": "git", "e": "git", "registered": None}
