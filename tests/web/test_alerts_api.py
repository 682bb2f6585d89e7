"""The API of alert rules: what is refused says why, and rules of the settings are changed only there."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from aiosched.db.server.engine import Database

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
    async with db.acquire() as conn:
        await conn.execute(
            "INSERT INTO alert_rule (name, kind, notifier, from_settings) VALUES ('s', 'run_failed', 'ops', true)"
        )

    for answer in (await api.put("alert-rules/s", json=RULE), await api.delete("alert-rules/s")):
        assert answer.status_code == 409
        assert "alerts.rules" in answer.text
    assert (await api.patch("alert-rules/s", json={"is_paused": True})).json()["is_paused"] is True
