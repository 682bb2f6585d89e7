"""The API of alert rules: what is refused says why, and rules of the settings are changed only there."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from aiosched.db.server.engine import Database
from tests.cli.records import add_dag

RULE: dict[str, Any] = {"kind": "run_failed", "notifier": "ops", "dags": ["sales_*"]}


async def test_a_rule_is_made_changed_paused_tested_and_deleted(api: httpx2.AsyncClient, db: Database) -> None:
    made = await api.put("alert-rules/sales", json=RULE)
    assert (made.status_code, made.json()["dags"], made.json()["is_paused"]) == (200, ["sales_*"], False)
    async with db.acquire() as conn:
        await conn.execute(
            """INSERT INTO alert (rule_id, subject, dag_ids, text, opened_at, last_at)
               SELECT id, 'sales_a', '{sales_a}', 'failed', now(), now() FROM alert_rule"""
        )
    (alert,) = (await api.get("alerts", params={"is_open": True})).json()["items"]
    assert (alert["rule"], alert["subject"], alert["kind"]) == ("sales", "sales_a", "run_failed")

    changed = await api.put("alert-rules/sales", json=RULE | {"kind": "run_late", "seconds": 5.0})
    assert (changed.json()["kind"], changed.json()["open_alerts"]) == ("run_late", 0)
    assert (await api.get("alerts", params={"is_open": True})).json()["items"] == []
    assert (await api.patch("alert-rules/sales", json={"is_paused": True})).json()["is_paused"] is True
    assert (await api.post("alert-rules/sales/test")).status_code == 409
    await api.patch("alert-rules/sales", json={"is_paused": False})
    assert (await api.post("alert-rules/sales/test")).status_code == 202
    assert (await api.delete("alert-rules/sales")).status_code == 204
    assert (await api.get("alert-rules")).json()["items"] == (await api.get("alerts")).json()["items"] == []


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"kind": "run_faild"}, 409, "these are run_failed, run_late"),
        ({"seconds": 5.0}, 409, "takes no seconds"),
        ({"quiet_from": "22:00"}, 409, "quiet hours need both"),
        ({"quiet_from": "22:00", "quiet_until": "07:00", "time_zone": "../etc"}, 409, "no time zone"),
        ({"notifier": "a b"}, 422, "notifier"),
        ({"dags": ["a\0"]}, 422, "dags"),
    ],
)
async def test_a_wrong_rule_is_refused(api: httpx2.AsyncClient, change: Any, status: int, words: str) -> None:
    answer = await api.put("alert-rules/sales", json=RULE | change)

    assert answer.status_code == status, answer.text
    assert words in answer.text


async def test_a_rule_of_the_settings_can_be_paused_but_not_changed(api: httpx2.AsyncClient, db: Database) -> None:
    await db.execute(
        "INSERT INTO alert_rule (name, kind, notifier, from_settings) VALUES ('s', 'run_failed', 'ops', true)"
    )

    for answer in (await api.put("alert-rules/s", json=RULE), await api.delete("alert-rules/s")):
        assert answer.status_code == 409
        assert "alerts.rules" in answer.text
    assert (await api.patch("alert-rules/s", json={"is_paused": True})).json()["is_paused"] is True


async def add_alert(db: Database, *dag_ids: str) -> int:
    async with db.acquire() as conn:
        number: int = await conn.fetchval(
            """WITH rule AS (INSERT INTO alert_rule (name, kind, notifier) VALUES ('r', 'run_failed', 'ops')
                             ON CONFLICT (name) DO UPDATE SET kind = 'run_failed' RETURNING id)
               INSERT INTO alert (rule_id, subject, dag_ids, text, opened_at, last_at)
               SELECT id, 's', $1, 'it failed', now(), now() FROM rule RETURNING id""",
            list(dag_ids),
        )
    return number


async def test_an_alert_is_acknowledged_by_the_first_one_and_silenced_until_somebody_ends_that(
    api: httpx2.AsyncClient, db: Database
) -> None:
    number = await add_alert(db, "sales")

    assert (await api.post(f"alerts/{number}/acknowledge")).json()["acknowledged_by"] == "api:local"
    assert (await api.post(f"alerts/{number}/acknowledge")).status_code == 200
    made = await api.post("alert-silences", json={"alert": number, "seconds": 3600, "reason": "<b>known</b>"})
    assert (made.status_code, made.json()["subject"], made.json()["created_by"]) == (201, "s", "api:local")
    (alert,) = (await api.get("alerts")).json()["items"]
    assert alert["silenced_until"] == made.json()["ends_at"]
    for _ in range(2):
        assert (await api.delete(f"alert-silences/{made.json()['id']}")).status_code == 204
    assert (await api.get("alert-silences", params={"is_active": True})).json()["items"] == []
    (silence,) = (await api.get("alert-silences")).json()["items"]
    assert silence["ended_by"] == "api:local"
    assert (await api.get("alerts")).json()["items"][0]["silenced_until"] is None


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"dag_id": "saled"}, 404, "Did you mean sales?"),
        ({"tag": "gold"}, 404, "no DAG with the tag"),
        ({"alert": 77}, 404, "no alert 77"),
        ({}, 409, "give one of them"),
        ({"dag_id": "sales", "tag": "gold"}, 409, "give one of them"),
        ({"dag_id": "sales", "seconds": 1}, 422, "seconds"),
        ({"dag_id": "sales", "reason": " "}, 409, "needs a reason"),
        ({"dag_id": "sales", "reason": "a\x1b[2Jb"}, 409, "one line"),
    ],
)
async def test_a_wrong_silence_is_refused(
    api: httpx2.AsyncClient, db: Database, body: Any, status: int, words: str
) -> None:
    await add_dag(db, "sales")

    answer = await api.post("alert-silences", json={"seconds": 60, "reason": "known"} | body)

    assert answer.status_code == status, answer.text
    assert words in answer.text
