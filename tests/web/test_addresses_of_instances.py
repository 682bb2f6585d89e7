"""Addresses that name one instance of a mapped task: `load[2]`."""

from __future__ import annotations

import httpx2

from aiosched.db.server.engine import Database
from tests.cli.records import add_dag, add_run, add_task


async def test_an_address_can_name_an_instance_of_a_mapped_task(db: Database, api: httpx2.AsyncClient) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "r1")
    for index in range(3):
        await add_task(db, run, 1, "failed" if index == 2 else "success", map_index=index)
    tasks = "dags/sales/runs/r1/tasks"

    assert (await api.get(f"{tasks}/load[2]")).json()["state"] == "failed"
    assert [one["map_index"] for one in (await api.get(tasks, params={"task_id": "load[1]"})).json()["items"]] == [1]
    assert (await api.get(f"{tasks}/load[2]/why")).json()["commands"][0].endswith("logs sales r1 load --map-index 2")
    assert (await api.get(f"{tasks}/load[7]")).status_code == 404
    assert (await api.get(f"{tasks}/load[2]", params={"map_index": 1})).status_code == 409
