"""XComs of other runs and DAGs, as the service `xcoms` finds them in the database."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from aiosched.core.graph.spec import TaskSpec
from aiosched.core.values.messages import XComRef
from aiosched.db.server.engine import Database
from aiosched.db.statements import runs
from aiosched.errors import Refused
from aiosched.scheduler.services.task_services import DatabaseServices
from tests.cli.records import NOON, add_dag, add_run, insert

HOUR = timedelta(hours=1)


def tasks(*task_ids: str) -> tuple[TaskSpec, ...]:
    return tuple(TaskSpec(task_id=task_id, operator="X") for task_id in task_ids)


class Asked:
    """The DAG `mine` with the run that asks, dated NOON, and the DAG `other` with tasks a and b."""

    def __init__(self, db: Database) -> None:
        self.db, self.asking = db, 0
        self.versions: dict[str, int] = {}

    async def add(self, dag_id: str, run_id: str, hours: float | None, **values: Any) -> int:
        """A run `hours` after NOON with XComs of b; None: without a logical date. `values` by map index as `_N`."""
        after = values.pop("run_after", NOON)
        date = None if hours is None else NOON + hours * HOUR
        run = await add_run(self.db, dag_id, self.versions[dag_id], run_id, logical_date=date, run_after=after)
        for index, value in values.items():
            await self.push(run, value, map_index=-1 if index == "value" else int(index[1:]))
        return run

    async def push(
        self, run: int, value: Any, *, key: str = "return_value", map_index: int = -1, index: int = 1
    ) -> None:
        row = {"run_id": run, "task_index": index, "map_index": map_index, "key": key, "value": json.dumps(value)}
        async with self.db.acquire() as conn:
            await insert(conn, "xcom", row)

    async def find(self, *refs: XComRef, **search: Any) -> list[Any]:
        """The values of each reference, without their map indexes."""
        answer = await self.answer(*refs, **search)
        return [[json.loads(text) for _, text in pairs] for pairs in answer["pairs"]]

    async def answer(self, *refs: XComRef, **search: Any) -> Any:
        args = json.dumps({"refs": refs or [XComRef("b")], **search})
        return json.loads(await DatabaseServices(self.db).call(self.asking, "xcoms", args))


@pytest.fixture
async def it(db: Database) -> Asked:
    found = Asked(db)
    for dag_id in ("mine", "other"):
        found.versions[dag_id] = await add_dag(db, dag_id, tasks=tasks("a", "b"))
    found.asking = await found.add("mine", "now", 0)
    return found


async def test_a_run_of_another_dag_is_named_or_has_the_own_name(it: Asked) -> None:
    await it.add("other", "now", 5, value="same name")
    await it.add("other", "r", 1, value="named")

    assert await it.find(dag_id="other") == [["same name"]]
    assert await it.find(dag_id="other", run_id="r") == [["named"]]
    assert await it.find(XComRef("b"), XComRef("a"), XComRef("nobody"), dag_id="other", run_id="r") == [
        ["named"],
        [],
        [],
    ]
    assert await it.find(XComRef("b", "k"), dag_id="other", run_id="r") == [[]]


async def test_another_run_of_the_own_dag(it: Asked) -> None:
    await it.add("mine", "before", -1, value=1)
    await it.add("mine", "after", 1, value=2)

    assert await it.find(run_id="before") == [[1]]
    assert await it.find(run_id="after") == [[2]]


async def test_any_key_is_the_return_value_or_the_first_one(it: Asked) -> None:
    run = await it.add("other", "r", 0)
    for map_index, keys in ((0, ["b", "é"]), (1, ["é", "b", "A"]), (2, ["z", "return_value"])):
        for key in keys:
            await it.push(run, f"{key} {map_index}", key=key, map_index=map_index)
    await it.push(run, "unmapped", key="k", index=0)
    await it.add("other", "later", 1)
    refs = [XComRef("b", None), XComRef("b", None, 0), XComRef("b", None, 1), XComRef("a", None), XComRef("b", None, 7)]

    expected = [["return_value 2"], ["b 0"], ["A 1"], ["unmapped"], []]
    assert await it.find(*refs, dag_id="other", run_id="r") == expected
    assert await it.find(*refs, dag_id="other", run_id="later", earlier=True) == expected
    found = await DatabaseServices(it.db).get_xcoms(run, [*refs, XComRef("b", "b")])
    assert [[json.loads(text) for _, text in pairs] for pairs in found] == [*expected, ["b 0", "b 1"]]


async def test_the_newest_value_that_is_not_later(it: Asked) -> None:
    for dag_id in ("mine", "other"):
        await it.add(dag_id, "older", -2, value="older")
        await it.add(dag_id, "newer", -1, value="newer")
        await it.add(dag_id, "nothing", -0.5)
        await it.add(dag_id, "later", 1, value="later")

        assert await it.find(dag_id=dag_id, earlier=True) == [["newer"]]
        assert await it.find(XComRef("a"), XComRef("b"), dag_id=dag_id, earlier=True) == [[], ["newer"]]
    await it.add("other", "equal", 0, value="equal")
    assert await it.find(dag_id="other", earlier=True) == [["equal"]]


async def test_a_named_run_comes_first_and_what_it_lacks_is_of_runs_before_it(it: Asked) -> None:
    await it.add("other", "first", -3, value="first")
    await it.add("other", "second", -2)
    await it.add("other", "third", -1, value="third")

    assert await it.find(dag_id="other", run_id="third", earlier=True) == [["third"]]
    assert await it.find(dag_id="other", run_id="second", earlier=True) == [["first"]]
    assert await it.find(dag_id="other", run_id="nobody", earlier=True) == [[]]


async def test_the_own_value_comes_before_one_of_a_run_of_the_same_instant(it: Asked) -> None:
    await it.push(it.asking, "own")
    await it.add("mine", "beside", None, run_after=NOON, value="beside")

    assert await it.find(earlier=True) == [["own"]]


async def test_runs_without_a_logical_date_are_dated_by_the_instant_from_which_they_may_run(it: Asked) -> None:
    await it.add("other", "dated", -2, value="dated")
    await it.add("other", "undated", None, run_after=NOON - HOUR, value="undated")
    await it.add("other", "to-come", None, run_after=NOON + HOUR, value="to-come")
    assert await it.find(dag_id="other", earlier=True) == [["undated"]]

    it.asking = await it.add("mine", "of-asset", None, run_after=NOON + 2 * HOUR)
    assert await it.find(dag_id="other", earlier=True) == [["to-come"]]
    await it.add("other", "again", 1.5, value="again")
    assert await it.find(dag_id="other", earlier=True) == [["again"]]
    assert await it.find(dag_id="other", run_id="undated", earlier=True) == [["undated"]]


async def test_indexes_of_a_mapped_task_are_those_of_one_run_and_one_index_the_newest_of_it(it: Asked) -> None:
    await it.add("other", "three", -2, _0="a", _1="b", _2="c")
    await it.add("other", "one", -1, _0="d")

    assert await it.find(dag_id="other", earlier=True) == [["d"]]
    assert await it.find(XComRef("b", map_index=2), dag_id="other", earlier=True) == [["c"]]
    assert await it.find(XComRef("b", map_index=0), XComRef("b", map_index=7), dag_id="other", earlier=True) == [
        ["d"],
        [],
    ]
    assert await it.find(dag_id="other", run_id="three") == [["a", "b", "c"]]


async def test_a_task_is_found_by_its_name_over_versions(it: Asked) -> None:
    await it.add("other", "older", -1, value="older")
    async with it.db.acquire() as conn:
        spec = await conn.fetchval("SELECT spec FROM dag_version WHERE dag_id = 'other'")
        moved = json.loads(spec) | {"tasks": json.loads(spec)["tasks"][::-1]}
        query = "INSERT INTO dag_version (dag_id, number, content_hash, spec) VALUES ('other', 2, 'x', $1) RETURNING id"
        it.versions["other"] = await conn.fetchval(query, json.dumps(moved))
    newer = await it.add("other", "newer", -0.5)

    assert await it.find(dag_id="other", earlier=True) == [["older"]]
    await it.push(newer, "newer", index=0)
    assert await it.find(dag_id="other", earlier=True) == [["newer"]]
    assert await it.find(dag_id="other", run_id="newer") == [["newer"]]


async def test_what_does_not_exist_is_nothing_and_is_said(it: Asked) -> None:
    await it.add("other", "r", -1, value=1)

    assert await it.answer(dag_id="othre") == {
        "pairs": [[]],
        "hint": "There is no DAG 'othre'; see `aiosched dags list`. Nothing is found.",
    }
    for search in ({"dag_id": "other"}, {"dag_id": "other", "run_id": "x", "earlier": True}):
        answer = await it.answer(**search)
        assert answer["pairs"] == [[]]
        assert answer["hint"].startswith(f"The DAG 'other' has no run '{search.get('run_id', 'now')}', so nothing is")
        assert "include_prior_dates=True" in answer["hint"]
    answer = await it.answer(run_id="r")  # that of the other DAG
    assert (answer["pairs"], answer["hint"].partition(": ")[2]) == (
        [[]], "if it is a run of another DAG, give dag_id, too.",
    )  # fmt: skip
    assert (await it.answer(dag_id="other", earlier=True))["hint"] is None


async def test_a_run_that_is_gone_asks_for_nothing_and_finds_nothing(it: Asked) -> None:
    await it.add("other", "r", -1, value=1)
    it.asking = 999_999

    assert await it.find(dag_id="other", run_id="r") == [[]]


async def test_values_keep_what_marks_their_types_and_where_they_are(it: Asked) -> None:
    run = await it.add("other", "r", -1)
    row = {"run_id": run, "task_index": 1, "map_index": -1, "key": "large", "value": '"beg"'}
    async with it.db.acquire() as conn:
        await insert(conn, "xcom", row | {"stored": json.dumps({"path": "a/b.json", "size": 9, "length": None})})
    await it.push(run, {"$aiosched": "set", "of": [1]}, key="typed")

    answer = await it.answer(XComRef("b", "large"), XComRef("b", "typed"), dag_id="other", run_id="r")
    assert answer["pairs"][0] == [[-1, ["a/b.json", 9]]]
    assert json.loads(answer["pairs"][1][0][1]) == {"$aiosched": "set", "of": [1]}


async def reserve(it: Asked, *paths: str) -> list[str]:
    """The files that are entered, once a task has asked for these."""
    where = {"task_index": 1, "map_index": -1, "try_number": 1}
    await DatabaseServices(it.db).call(it.asking, "reserve_xcoms", json.dumps({"paths": paths, **where}))
    return [row["path"] for row in await it.db.fetch("SELECT path FROM unreferenced_xcom ORDER BY path")]


async def test_a_task_enters_files_of_its_own_run(it: Asked) -> None:
    paths = [f"dag_id=mine/run_id=now/task_id={name}/attempt=1.0a.json" for name in ("a", "b")]
    assert await reserve(it, *paths) == paths


@pytest.mark.parametrize(
    "path",
    [
        "dag_id=other/run_id=now/task_id=b/attempt=1.0a.json",
        "dag_id=mine/run_id=before/task_id=b/attempt=1.0a.json",
        "dag_id=mine/run_id=now/../run_id=before/x",
        "dag_id=mine/run_id=now",
        "",
    ],
)
async def test_a_task_enters_no_file_of_another_run(it: Asked, path: str, caplog: pytest.LogCaptureFixture) -> None:
    """What is entered is removed once the attempt is over and has not reported it: another's value would be gone."""
    with pytest.raises(Refused, match=r"is not of the run 'now' of 'mine'"):
        await reserve(it, "dag_id=mine/run_id=now/task_id=b/attempt=1.0a.json", path)
    assert caplog.messages == [f"refused: a task of mine now asked for the file {path!r}"]
    assert await reserve(it) == []


async def test_one_answer_is_bounded_over_all_runs_that_it_is_from(it: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_PULLED", 1000)
    await it.add("other", "first", -2, _0="x" * 900)
    await it.add("other", "second", -1, _1="y" * 900)
    both = [XComRef("b", map_index=0), XComRef("b", map_index=1)]

    assert await it.find(*both, dag_id="other", earlier=True) == [["x" * 900], ["y" * 900]], "one value more is let in"
    await it.add("other", "third", -0.5, _2="z")
    with pytest.raises(Refused, match="pulled at once"):
        await it.find(*both, XComRef("b", map_index=2), dag_id="other", earlier=True)


# ---- teams ----

REFUSED = (
    r"XComs of the DAG 'other' are for DAGs of its team 'alpha'; 'mine', which asks, belongs to {whose}\. Let 'other'"
)


@pytest.mark.parametrize(
    ("mine", "other", "whose"),
    [
        ("beta", "alpha", "the team 'beta'"),
        (None, "alpha", "no team"),
        ("alpha", "alpha", None),
        ("beta", None, None),
        (None, None, None),
    ],
)
async def test_the_team_of_the_dag_that_asks_decides(
    it: Asked, mine: str | None, other: str | None, whose: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    await it.add("other", "r", -1, value="of alpha")
    async with it.db.acquire() as conn:
        await conn.execute("INSERT INTO team (name) VALUES ('alpha'), ('beta')")
        await conn.execute("UPDATE dag SET team = CASE dag_id WHEN 'mine' THEN $1 ELSE $2 END", mine, other)

    for search in ({"run_id": "r"}, {"earlier": True}, {"run_id": "nobody"}):
        if whose is None:
            assert await it.find(dag_id="other", **search) == ([[]] if "nobody" in search.values() else [["of alpha"]])
            continue
        with pytest.raises(Refused, match=REFUSED.format(whose=whose)):
            await it.find(dag_id="other", **search)
        assert "refused: a task of mine now asked for XComs of the DAG 'other' of the team 'alpha'" in caplog.text
        caplog.clear()
