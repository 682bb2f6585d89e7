"""What the API shows of DAGs, runs and task instances."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from aiosched.config import Settings
from aiosched.core.graph.spec import DagSpec, GroupSpec, MappingSpec, TaskSpec
from aiosched.core.values.messages import AttemptKey, StoredXCom
from aiosched.db.server.engine import Database
from aiosched.db.statements import module_sources, unwritten_logs
from aiosched.db.statements.journal import upsert_xcoms, xcom_row
from aiosched.db.statements.unwritten_logs import UnwrittenRow
from aiosched.remote.folder import RemoteFolder
from aiosched.web.api.graph import critical_path
from aiosched.web.api.grid import grid_rows
from aiosched.web.requests.request_client import RequestClient
from tests.cli.records import NOON, add_dag, add_file, add_run, add_task, insert
from tests.remote.stores import FailingFolder

GROUPED = (
    TaskSpec(task_id="start", operator="EmptyOperator"),
    TaskSpec(task_id="g.one", operator="PythonOperator", group_id="g", upstream=("start",)),
    TaskSpec(
        task_id="g.two", operator="PythonOperator", group_id="g", upstream=("g.one",), mapping=MappingSpec(inputs=())
    ),
)


def minutes(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


async def every_page(api: httpx2.AsyncClient, path: str, **params: Any) -> list[Any]:
    """All entries of a list, two to a page."""
    items: list[Any] = []
    cursor = None
    while True:
        answer = (await api.get(path, params={**params, "limit": 2, **({"cursor": cursor} if cursor else {})})).json()
        assert len(answer["items"]) <= 2
        items += answer["items"]
        if (cursor := answer["next_cursor"]) is None:
            return items


# ---- lists ----


async def test_lists_are_whole_page_by_page(db: Database, api: httpx2.AsyncClient) -> None:
    version = 0
    for name in "abcde":
        version = await add_dag(db, name)
        await add_file(db, f"broken_{name}.py", error="SyntaxError: x")
    run = 0
    for number in range(5):
        run = await add_run(db, "e", version, f"r{number}")
    for index in range(5):
        await add_task(db, run, 1, "success", map_index=index)

    assert [one["dag_id"] for one in await every_page(api, "dags")] == list("abcde")
    assert [one["run_id"] for one in await every_page(api, "runs", dag_id="e")] == ["r4", "r3", "r2", "r1", "r0"]
    assert [one["map_index"] for one in await every_page(api, "dags/e/runs/r4/tasks")] == [0, 1, 2, 3, 4]
    assert [one["file"] for one in await every_page(api, "import-errors")] == [f"broken_{name}.py" for name in "abcde"]


async def test_runs_by_state_type_date_and_part_of_their_id(db: Database, api: httpx2.AsyncClient) -> None:
    version = await add_dag(db, "sales")
    await add_run(db, "sales", version, "scheduled__1", state="failed", run_type="scheduled", run_after=minutes(0))
    await add_run(db, "sales", version, "manual__1", state="success", run_after=minutes(10))
    await add_run(db, "sales", version, "manual__2", state="failed", run_after=minutes(20))

    async def found(**params: Any) -> list[str]:
        return [run["run_id"] for run in (await api.get("runs", params=params)).json()["items"]]

    assert await found(state="failed") == ["manual__2", "scheduled__1"]
    assert await found(run_type="scheduled") == ["scheduled__1"]
    assert await found(search="manual") == ["manual__2", "manual__1"]
    assert await found(search="_%") == []
    assert await found(since=minutes(10).isoformat(), until=minutes(20).isoformat()) == ["manual__1"]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "state=nonsense",
        "since=2026-01-01T00:00:00",
        "search=%00",
        "dag_id=%00",
        "cursor=WyJhIl0",
        "cursor=%00",
    ],
)
async def test_unusable_questions_are_told_what_is_wrong(api: httpx2.AsyncClient, query: str) -> None:
    answer = await api.get(f"runs?{query}")

    assert answer.status_code in (400, 422)
    assert answer.json()["code"] in ("unusable-request", "bad-cursor")


# ---- one run ----


async def test_a_run_is_named_as_on_the_command_line(db: Database, api: httpx2.AsyncClient) -> None:
    version = await add_dag(db, "sales")
    await add_run(db, "sales", version, "scheduled__2026-11-20T12:00:00+00:00", logical_date=NOON, state="failed")
    run = await add_run(db, "sales", version, "two", conf=json.dumps({"day": 1}))
    await add_task(db, run, 0, "success")
    await add_task(db, run, 1, None)

    for reference in ("latest-failed", "2026-11-20T12:00:00+00:00", "scheduled__2026-11-20T12%3A00%3A00%2B00%3A00"):
        answer = await api.get(f"dags/sales/runs/{reference}")
        assert answer.json()["logical_date"] == "2026-11-20T12:00:00Z", reference
    latest = (await api.get("dags/sales/runs/latest")).json()

    assert (latest["run_id"], latest["conf"], latest["tasks"]) == ("two", {"day": 1}, {"none": 1, "success": 1})


async def test_task_instances_by_state(db: Database, api: httpx2.AsyncClient) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "one")
    await add_task(db, run, 0, "success")
    await add_task(db, run, 1, None)

    async def found(*states: str) -> list[str]:
        answer = await api.get("dags/sales/runs/one/tasks", params={"state": list(states)})
        return [one["task_id"] for one in answer.json()["items"]]

    assert await found("none") == ["load"]
    assert await found("success") == ["extract"]
    assert await found("none", "success") == ["extract", "load"]


async def test_a_task_instance_with_its_definition_tries_and_values(db: Database, api: httpx2.AsyncClient) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "one")
    await add_task(db, run, 0, "failed", try_number=2, max_tries=1, reason="RuntimeError: no")
    async with db.acquire() as conn:
        old = {
            "run_id": run,
            "task_index": 0,
            "map_index": -1,
            "try_number": 1,
            "state": "failed",
            "details": "Traceback",
        }
        await insert(conn, "task_try", old)
        for key in ("return_value", "rows"):
            await insert(
                conn, "xcom", {"run_id": run, "task_index": 0, "map_index": -1, "key": key, "value": '{"a": 1}'}
            )

    details = (await api.get("dags/sales/runs/one/tasks/extract")).json()
    tries = (await api.get("dags/sales/runs/one/tasks/extract/tries")).json()["items"]
    xcoms = await every_page(api, "dags/sales/runs/one/tasks/extract/xcom")
    one = (await api.get("dags/sales/runs/one/tasks/extract/xcom/rows")).json()

    assert details["definition"]["downstream"] == ["load"]
    assert (details["run_key"], details["logs"], details["reason"]) == (run, [], "RuntimeError: no")
    assert [(t["try_number"], t["details"]) for t in tries] == [(1, "Traceback"), (2, None)]
    assert [x["key"] for x in xcoms] == ["return_value", "rows"]
    assert json.loads(one["value"]) == {"a": 1}
    for path in ("tasks/nothing", "tasks/extract?map_index=3", "tasks/extract/xcom/nothing"):
        assert (await api.get(f"dags/sales/runs/one/{path}")).status_code == 404


async def add_large_xcom(db: Database, request_client: RequestClient, tmp_path: Path, content: bytes) -> str:
    """A value in remote storage, and where it is."""
    request_client.settings = Settings.model_validate({"xcom": {"remote": f"file://{tmp_path}/xcoms/"}})
    RemoteFolder(f"file://{tmp_path}/xcoms", setting="xcom.remote").write("a b/one.json", content)
    run = await add_run(db, "sales", await add_dag(db, "sales"), "one")
    await add_task(db, run, 0, "success", try_number=1)
    stored = StoredXCom(key="big", path="a b/one.json", size=len(content), length=3, value='"[1, 2"')
    async with db.acquire() as conn:
        await upsert_xcoms(conn, [xcom_row(run, 0, -1, stored)])
    return f"file://{tmp_path}/xcoms/a b/one.json"


async def test_a_value_in_remote_storage_is_shown_by_its_address_and_can_be_downloaded(
    api: httpx2.AsyncClient, db: Database, request_client: RequestClient, tmp_path: Path
) -> None:
    content = b"[1, 2, " + b"3" * 3_000_000 + b"]"
    url = await add_large_xcom(db, request_client, tmp_path, content)
    base = "dags/sales/runs/one/tasks/extract/xcom"

    (listed,) = (await api.get(base)).json()["items"]
    one = (await api.get(f"{base}/big")).json()
    whole = await api.get(f"{base}/big/content")

    assert (listed["size"], listed["value"], listed["url"]) == (len(content), "[1, 2", url)
    assert one == listed
    assert (whole.status_code, whole.content, whole.headers["content-type"]) == (200, content, "application/json")
    assert whole.headers["content-disposition"].startswith("attachment")


async def test_a_value_that_cannot_be_downloaded_says_why(
    api: httpx2.AsyncClient, db: Database, request_client: RequestClient, tmp_path: Path
) -> None:
    await add_large_xcom(db, request_client, tmp_path, b"[1, 2, 3]")
    path = "dags/sales/runs/one/tasks/extract/xcom/big/content"
    (tmp_path / "xcoms/a b/one.json").unlink()
    gone = await api.get(path)
    request_client.settings = Settings()
    del request_client.remote_xcoms
    unset = await api.get(path)

    assert (gone.status_code, gone.json()["code"]) == (404, "not-found")
    assert "one.json of the XCom does not exist" in gone.json()["detail"]
    assert (unset.status_code, unset.json()["code"]) == (503, "remote-storage")
    assert "xcom.remote is not set here" in unset.json()["detail"]


# ---- pictures ----


async def test_the_grid_has_a_row_for_each_task_and_group(db: Database, api: httpx2.AsyncClient) -> None:
    version = await add_dag(db, "sales", tasks=GROUPED)
    first = await add_run(db, "sales", version, "r1", state="success")
    second = await add_run(db, "sales", version, "r2")
    await add_task(db, first, 0, "success")
    await add_task(db, second, 0, "success")
    await add_task(db, second, 1, "running")
    await add_task(db, second, 2, "success", map_index=0)
    await add_task(db, second, 2, "failed", map_index=1)

    grid = (await api.get("dags/sales/grid")).json()

    assert [row["id"] for row in grid["rows"]] == ["start", "g", "g.one", "g.two"]
    assert [run["run_id"] for run in grid["runs"]] == ["r1", "r2"]
    by_row = dict(zip([row["id"] for row in grid["rows"]], grid["cells"][1], strict=True))
    assert by_row["start"] == "success"
    assert by_row["g.one"] == "running"
    assert by_row["g.two"] == {"success": 1, "failed": 1}
    assert by_row["g"] == {"running": 1, "success": 1, "failed": 1}


def test_groups_stand_before_what_they_hold() -> None:
    spec = DagSpec(
        dag_id="d",
        tasks=GROUPED,
        groups=(GroupSpec(group_id="g"),),
    )

    rows = grid_rows(spec)

    assert [(row.id, row.label, row.depth, row.kind) for row in rows] == [
        ("start", "start", 0, "task"),
        ("g", "g", 0, "group"),
        ("g.one", "one", 1, "task"),
        ("g.two", "two", 1, "task"),
    ]


async def test_the_graph_in_a_run_has_states_and_the_critical_path(db: Database, api: httpx2.AsyncClient) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "one")
    await add_task(db, run, 0, "success", try_number=1, start_date=minutes(0), end_date=minutes(1))
    await add_task(db, run, 1, "failed", try_number=1, start_date=minutes(1), end_date=minutes(3))

    graph = (await api.get("dags/sales/graph", params={"run": "latest"})).json()

    assert {node["id"]: node["counts"] for node in graph["nodes"]} == {"extract": {"success": 1}, "load": {"failed": 1}}
    assert [(edge["source"], edge["target"]) for edge in graph["edges"]] == [("extract", "load")]
    assert graph["critical_path"] == ["extract", "load"]


async def test_the_gantt_tells_when_tries_were_deferred(db: Database, api: httpx2.AsyncClient) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "one")
    await add_task(db, run, 0, "deferred", try_number=2, start_date=minutes(4))
    async with db.acquire() as conn:
        extract = {"run_id": run, "task_index": 0, "map_index": -1}
        await insert(conn, "task_try", extract | {"try_number": 1, "state": "failed", "end_date": minutes(3)})
        for number, since, until in ((1, 0, minutes(1)), (1, 2, None), (2, 5, None)):
            row = extract | {"try_number": number, "since": minutes(since), "until": until}
            await insert(conn, "deferral", row)

    (bar,) = (await api.get("dags/sales/runs/one/gantt")).json()["items"]

    ended = "2026-11-20T12:03:00Z"  # an open stretch of a try that is over ended with it
    assert [[(one["since"], one["until"]) for one in each["deferred"]] for each in bar["tries"]] == [
        [("2026-11-20T12:00:00Z", "2026-11-20T12:01:00Z"), ("2026-11-20T12:02:00Z", ended)],
        [("2026-11-20T12:05:00Z", None)],
    ]


async def test_the_gantt_has_groups_and_what_never_started(db: Database, api: httpx2.AsyncClient) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales", tasks=GROUPED), "one")
    await add_task(db, run, 0, "failed", try_number=2, start_date=minutes(0), end_date=minutes(1))
    await add_task(db, run, 1, "upstream_failed")
    await add_task(db, run, 2, "success", map_index=0, try_number=1, start_date=minutes(0))
    for place, state in enumerate((None, "scheduled", "scheduled"), start=1):
        await add_task(db, run, 2, state, map_index=place)

    found = (await api.get("dags/sales/runs/one/gantt")).json()

    assert [(row["id"], row["kind"], row["not_started"]) for row in found["rows"]] == [
        ("start", "task", {}),
        ("g", "group", {}),
        ("g.one", "task", {"upstream_failed": 1}),
        ("g.two", "task", {"none": 1, "scheduled": 2}),
    ]
    assert [(bar["task_id"], bar["map_index"]) for bar in found["items"]] == [("start", -1), ("g.two", 0)]


def test_a_run_without_ends_has_no_critical_path() -> None:
    assert critical_path(DagSpec(dag_id="d", tasks=GROUPED), []) == []


async def test_statistics_of_several_dags(db: Database, api: httpx2.AsyncClient) -> None:
    version = await add_dag(db, "sales")
    for number, state in enumerate(("success", "failed", "success", "running")):
        ended = {"end_date": minutes(number + 1)} if state != "running" else {}
        await add_run(db, "sales", version, f"r{number}", state=state, start_date=minutes(0), **ended)

    sales, nothing = (await api.get("dag-statistics?dag_id=sales&dag_id=nothing")).json()["items"]

    assert [bar["state"] for bar in sales["last_runs"]] == ["success", "failed", "success", "running"]
    assert (round(sales["success_rate"], 2), sales["p50"], sales["p95"]) == (0.67, 120.0, 180.0)
    assert (nothing["last_runs"], nothing["p50"]) == ([], None)


async def test_the_calendar_counts_days(db: Database, api: httpx2.AsyncClient) -> None:
    version = await add_dag(db, "sales")
    await add_run(db, "sales", version, "a", state="success", logical_date=NOON)
    await add_run(db, "sales", version, "b", state="failed", logical_date=NOON + timedelta(hours=1))
    await add_run(db, "sales", version, "c", state="success", logical_date=NOON - timedelta(days=365))

    calendar = (await api.get("dags/sales/calendar?year=2026")).json()

    assert calendar["days"] == [{"date": "2026-11-20", "counts": {"success": 1, "failed": 1}, "coming": 0}]


async def test_versions_and_what_changed_between_them(db: Database, api: httpx2.AsyncClient) -> None:
    await add_dag(db, "sales")
    async with db.acquire() as conn:
        await conn.execute("UPDATE dag_version SET source = 'retries = 1'")
        await conn.execute(
            "INSERT INTO dag_version (dag_id, number, content_hash, spec, source)"
            " SELECT dag_id, 2, 'x', spec, 'retries = 2' FROM dag_version"
        )

    versions = await every_page(api, "dags/sales/versions")
    diff = (await api.get("dags/sales/versions/1/diff/2")).json()

    assert [one["number"] for one in versions] == [2, 1]
    assert "-retries = 1\n+retries = 2" in diff["source"]
    assert diff["spec"] == ""
    assert (await api.get("dags/sales/versions/3")).status_code == 404


async def _versions(db: Database, *versions: tuple[str | None, str | None, dict[str, str] | None]) -> None:
    """Versions of the DAG `sales`: file, source of that file, and content hashes of what it imports."""
    await add_dag(db, "sales")
    async with db.acquire() as conn:
        await conn.execute("UPDATE dag_version SET number = 100")
        for number, (file, source, sources) in enumerate(versions, start=1):
            await conn.execute(
                "INSERT INTO dag_version (dag_id, number, content_hash, spec, file, source, sources)"
                " SELECT dag_id, $1, 'x', spec, $2, $3, $4 FROM dag_version WHERE number = 100",
                number, file, source, None if sources is None else msgspec.json.encode(sources).decode(),
            )  # fmt: skip


async def test_modules_of_versions_are_shown_and_compared(db: Database, api: httpx2.AsyncClient) -> None:
    before = {"b:a.py": "own", "b:kept.py": "k", "b:changed.py": "one", "b:gone.py": "g", "b:unknown.py": "u1"}
    after = {"b:a.py": "own", "b:kept.py": "k", "b:changed.py": "two", "b:new.py": "n", "b:unknown.py": "u2"}
    after["b:ends.py"], before["b:ends.py"] = "lf", "crlf"
    await _versions(db, ("b:a.py", "x", before), ("b:a.py", "x", after))
    async with db.acquire() as conn:
        texts = {"one": "WORD = 1\n", "two": "WORD = 2\n", "g": "GONE\n", "n": "NEW\n", "lf": "E\n", "crlf": "E\r\n"}
        await module_sources.store(conn, texts | {"u1": "U\n"})

    diff = (await api.get("dags/sales/versions/1/diff/2")).json()
    one = await api.get("dags/sales/versions/1/module", params={"name": "b:changed.py"})
    unknown = (await api.get("dags/sales/versions/2/module", params={"name": "b:unknown.py"})).json()
    others = [
        (await api.get("dags/sales/versions/1/module", params={"name": n})).status_code for n in ("b:new.py", "x")
    ]

    assert (diff["source"], diff["source_changed"], diff["modules_known"]) == ("", False, True)
    assert {c["name"]: (c["change"], (c["diff"] or "").splitlines()[-2:]) for c in diff["module_changes"]} == {
        "b:changed.py": ("changed", ["-WORD = 1", "+WORD = 2"]),
        "b:ends.py": ("changed", []),
        "b:gone.py": ("removed", ["@@ -1 +0,0 @@", "-GONE"]),
        "b:new.py": ("added", ["@@ -0,0 +1 @@", "+NEW"]),
        "b:unknown.py": ("changed", []),
    }
    assert [c["name"] for c in diff["module_changes"] if c["why"]] == ["b:unknown.py"]
    assert diff["modules"] == [c["name"] for c in diff["module_changes"]]
    assert one.json() == {"name": "b:changed.py", "content_hash": "one", "source": "WORD = 1\n", "why": None}
    assert unknown["source"] is None
    assert "not kept" in unknown["why"]
    assert others == [404, 404]


LIST = {"a.py": "own"}
LARGE = "#" * 2**19


@pytest.mark.parametrize(
    ("one", "two", "said"),
    [
        (("a.py", "x", LIST), ("a.py", "x", LIST), (False, True)),
        (("a.py", "x", LIST), ("a.py", "x", {"a.py": "edited where the text was cut"}), (True, True)),
        (("a.py", "x", LIST), ("b.py", "x", {"b.py": "own"}), (False, True)),  # it moved
        (("a.zip/b.py", "x", {"a.zip": "1"}), ("a.zip/b.py", "x", {"a.zip": "2"}), (False, True)),
        (("a.py", "x", None), ("a.py", "x", LIST), (False, False)),  # stored by an older aiosched
        ((None, None, None), (None, None, None), (None, False)),  # of an application
        (("a.py", "x", LIST), (None, None, None), (None, False)),
    ],
)
async def test_nothing_is_called_unchanged_that_is_not_known(
    db: Database, api: httpx2.AsyncClient, one: Any, two: Any, said: tuple[bool | None, bool]
) -> None:
    await _versions(db, one, two)

    diff = (await api.get("dags/sales/versions/1/diff/2")).json()

    assert (diff["source_changed"], diff["modules_known"]) == said
    assert diff["modules"] == (["a.zip"] if one[0] == "a.zip/b.py" else [])


async def test_five_hundred_large_modules_are_compared_up_to_a_limit(db: Database, api: httpx2.AsyncClient) -> None:
    names = [f"m{n:03}.py" for n in range(500)]
    await _versions(db, ("a.py", "x", {n: f"{n}1" for n in names}), ("a.py", "x", {n: f"{n}2" for n in names}))
    async with db.acquire() as conn:
        await module_sources.store(conn, {f"{n}{v}": f"{v}\n" for n in names[1:] for v in "12"})
        await module_sources.store(conn, {f"{names[0]}{v}": LARGE + v for v in "12"})

    changes = (await api.get("dags/sales/versions/1/diff/2")).json()["module_changes"]

    assert len(changes) == 500
    assert [(c["name"], c["why"][:12]) for c in changes if c["diff"] is None] == [(names[0], "It is too la")]


@pytest.mark.parametrize("place", ["versions/1", "versions/1/diff/1", "tasks", "graph", "grid", "runs/r/tasks/a"])
async def test_a_version_that_cannot_be_read_is_named(db: Database, api: httpx2.AsyncClient, place: str) -> None:
    await add_run(db, "sales", await add_dag(db, "sales"), "r", logical_date=NOON)
    await db.execute("""UPDATE dag_version SET spec = '{"timetable": {"kind": "lunar"}}'""")

    answer = await api.get(f"dags/sales/{place}")

    assert answer.status_code == 409
    assert answer.json()["detail"].startswith("Version 1 of DAG 'sales' cannot be read (ValidationError: ")
    assert answer.json()["detail"].endswith("Run that aiosched, or change the DAG, so that a new version is stored.")


# ---- the first page ----


async def test_the_first_page_says_what_needs_somebody(db: Database, api: httpx2.AsyncClient) -> None:
    version = await add_dag(db, "paused", is_paused=True)
    await add_run(db, "paused", version, "waits", state="queued")
    await add_dag(db, "late", next_dagrun_create_after=datetime(2020, 1, 1, tzinfo=UTC))
    version = await add_dag(db, "broken")
    await add_run(db, "broken", version, "r", state="failed", end_date=datetime.now(UTC))
    await add_file(db, "bad.py", error="SyntaxError: x")

    answer = (await api.get("summary")).json()

    assert answer["status"] == "unhealthy"
    assert {(one["kind"], one["dag_id"]) for one in answer["attention"]} == {
        ("scheduler", None), ("import_error", None), ("paused", "paused"), ("late", "late"), ("failed", "broken"),
    }  # fmt: skip
    assert (answer["counts"]["queued_runs"], answer["counts"]["failed_runs_24h"], answer["counts"]["late_dags"]) == (
        1,
        1,
        1,
    )


async def test_failures_are_one_line_for_each_error_with_its_task(db: Database, api: httpx2.AsyncClient) -> None:
    for dag_id, reason in (("a", "KeyError: row 17"), ("b", "KeyError: row 4"), ("c", "Timeout"), ("d", None)):
        version = await add_dag(db, dag_id, tasks=(TaskSpec(task_id="load", operator="op"),))
        run = await add_run(db, dag_id, version, "r", state="failed", end_date=datetime.now(UTC))
        await add_task(db, run, 0, "failed", reason=reason)

    found = [one for one in (await api.get("summary")).json()["attention"] if one["kind"] == "failed"]

    words = [(one["words"], one["number"], one["dags"]) for one in found]
    assert words == [
        ("2 DAGs failed: KeyError: row 4", 2, ["a", "b"]),
        ("c failed in load: Timeout", 1, []),
        ("the last run of d failed", 1, []),
    ]
    assert (found[1]["run_id"], found[1]["task_id"]) == ("r", "load")


async def test_import_errors_are_one_line_since_the_first_and_alerts_one_that_nobody_has(
    db: Database, api: httpx2.AsyncClient
) -> None:
    for number in range(4):
        await add_file(db, f"bad{number}.py", error="SyntaxError: x", error_since=NOON + timedelta(hours=number))
    async with db.acquire() as conn:
        await conn.execute(
            "INSERT INTO alert_rule (name, kind, notifier, error, failed_at) "
            "VALUES ('rule', 'run_late', 'ops', 'HTTP 500', $1)",
            NOON,
        )
        await conn.execute(
            "INSERT INTO alert (rule_id, subject, text, opened_at, last_at, acknowledged_at) "
            "SELECT id, s, s || ' is late', $1::timestamptz, $1, CASE s WHEN 'c' THEN $1 END "
            "FROM alert_rule, unnest('{a,b,c}'::text[]) AS s",
            NOON,
        )

    found = {one["kind"]: one for one in (await api.get("summary")).json()["attention"]}

    assert found["import_error"]["words"] == "4 DAG files cannot be imported: bad0.py, bad1.py, bad2.py, …"
    assert found["import_error"]["since"] == "2026-11-20T12:00:00Z"
    assert found["alert"]["words"] == "2 alerts are open, the newest: b is late"
    assert found["undelivered"]["words"] == "messages of the alert rule rule do not arrive: HTTP 500"
    assert (await api.get("badges")).json() == {"inputs": 0, "alerts": 3, "import_errors": 4}


async def test_the_timeline_has_past_and_coming_runs(db: Database, api: httpx2.AsyncClient) -> None:
    now = datetime.now(UTC)
    version = await add_dag(db, "sales", next_dagrun_create_after=now + timedelta(hours=1))
    await add_run(
        db,
        "sales",
        version,
        "old",
        state="success",
        start_date=now - timedelta(days=2),
        end_date=now - timedelta(days=2),
    )
    await add_run(db, "sales", version, "new", start_date=now - timedelta(hours=1))

    answer = (await api.get("timeline")).json()

    assert [run["run_id"] for run in answer["runs"]] == ["new"]
    assert [run["dag_id"] for run in answer["coming"]] == ["sales"]


# ---- logs ----


@pytest.fixture
async def log(db: Database, request_client: RequestClient, tmp_path: Any) -> bytes:
    """The log of a try, as the runner would have written it."""
    request_client.settings = Settings.model_validate({"core": {"home": tmp_path}})
    run = await add_run(db, "sales", await add_dag(db, "sales"), "one")
    await add_task(db, run, 0, "failed", try_number=1)
    text = b"hello\nworld \xc3\xa9\nTraceback (most recent call last):\n  File x\nValueError: no\n"
    folder = request_client.settings.logs_folder / "dag_id=sales" / "run_id=one" / "task_id=extract"
    folder.mkdir(parents=True)
    (folder / "attempt=1.log").write_bytes(text)
    return text


LOG = "dags/sales/runs/one/tasks/extract/logs/1"


async def test_a_log_in_whole_and_in_parts(api: httpx2.AsyncClient, log: bytes) -> None:
    whole = await api.get(LOG)
    parts = {
        "?offset=6&limit=5": log[6:11],
        "?tail=3": log[-3:],
        "?tail=9999": log,
        f"?offset={len(log)}": b"",
        "?offset=99999": b"",
    }

    assert (whole.status_code, whole.content, whole.headers["x-log-complete"]) == (200, log, "true")
    for query, wanted in parts.items():
        answer = await api.get(LOG + query)
        assert answer.content == wanted, query
        assert answer.headers["x-log-size"] == str(len(log))


@pytest.mark.parametrize(
    ("header", "start", "end"),
    [("bytes=0-4", 0, 5), ("bytes=6-", 6, None), ("bytes=-3", -3, None), ("bytes=6-99999", 6, None)],
)
async def test_byte_ranges(api: httpx2.AsyncClient, log: bytes, header: str, start: int, end: int | None) -> None:
    answer = await api.get(LOG, headers={"Range": header})

    assert (answer.status_code, answer.content) == (206, log[start:end])


@pytest.mark.parametrize("header", ["bytes=9999-", "bytes=a-b", "lines=1-2", "bytes=-", "bytes=1-2,4-5"])
async def test_ranges_that_cannot_be(api: httpx2.AsyncClient, log: bytes, header: str) -> None:
    answer = await api.get(LOG, headers={"Range": header})

    assert answer.status_code == 416
    assert answer.headers["content-range"] == f"bytes */{len(log)}"


async def test_where_errors_begin(api: httpx2.AsyncClient, log: bytes) -> None:
    offsets = (await api.get(f"{LOG}/errors")).json()["offsets"]

    assert [log[offset : offset + 9] for offset in offsets] == [b"Traceback"]  # what it raised belongs to it


async def test_a_log_of_another_machine_is_read_from_remote_storage(
    api: httpx2.AsyncClient, log: bytes, request_client: RequestClient, tmp_path: Path
) -> None:
    request_client.settings.logs.remote = f"file://{tmp_path}/store"
    store = RemoteFolder(f"file://{tmp_path}/store", setting="logs.remote")
    name = f"dag_id=sales/run_id=one/task_id=extract/attempt=1.20250101T000000000000Z-other-00aa11bb.0-{len(log)}.log"
    store.write(name, log)
    shutil.rmtree(tmp_path / "logs")

    whole = await api.get(LOG)
    details = (await api.get("dags/sales/runs/one/tasks/extract")).json()

    assert (whole.content, whole.headers["x-log-size"]) == (log, str(len(log)))
    assert (await api.get(f"{LOG}?offset=6&limit=5")).content == log[6:11]
    assert (await api.get(f"{LOG}/errors")).json()["offsets"] == [log.index(b"Traceback")]
    assert (await api.get(f"{LOG}/search?words=WORLD")).json() == {"line": 1}
    assert (await api.get(f"{LOG}/blocks")).json()["size"] == len(log)
    assert details["logs"] == [1]


async def test_a_store_that_fails_is_said_unless_the_log_is_here(
    api: httpx2.AsyncClient, log: bytes, request_client: RequestClient, tmp_path: Path
) -> None:
    request_client.settings.logs.remote = "file:///proc/1/nowhere"
    here = await api.get(LOG)
    shutil.rmtree(tmp_path / "logs")
    request_client.logs.remote = FailingFolder(tmp_path / "store")
    request_client.logs.remote.is_down = True
    request_client.logs._listings.clear()
    nowhere = await api.get(LOG)

    assert here.content == log
    assert (nowhere.status_code, nowhere.json()["code"]) == (503, "remote-storage")
    assert "no route to the store" in nowhere.json()["detail"]


async def test_a_log_ends_with_what_could_not_be_written(db: Database, api: httpx2.AsyncClient, log: bytes) -> None:
    async with db.acquire() as conn:
        run = await conn.fetchval("SELECT id FROM dag_run")
        for number in (1, 2):
            row = UnwrittenRow("node-1", "No space left on device", 5_000, "the end\n")
            await unwritten_logs.store(conn, AttemptKey(run, 0, -1, number), row)

    cut, alone, tail, found = [
        await api.get(LOG.removesuffix("1") + query) for query in ("1", "2", "1?tail=8", "1/search?words=the+end")
    ]

    said = "... 5,000 bytes of this log could not be written on node-1 (No space left on device); these are the last "
    assert cut.content == log + f"{said}of them:\nthe end\n".encode()
    assert alone.content == cut.content.removeprefix(log)
    assert tail.content == b"the end\n"
    assert found.json() == {"line": 6}


async def test_a_try_that_said_nothing_has_an_empty_log(api: httpx2.AsyncClient, log: bytes) -> None:
    answer = await api.get("dags/sales/runs/one/tasks/extract/logs/2")

    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("evil", ["..", "%2e%2e", "..%2f..%2fetc", "a%2fb"])
async def test_no_path_leads_out_of_the_logs(api: httpx2.AsyncClient, log: bytes, evil: str) -> None:
    answer = await api.get(httpx2.URL(f"http://localhost/api/v1/dags/sales/runs/one/tasks/{evil}/logs/1"))

    assert answer.status_code == 404
