"""`/health` names parsers that run alone: what they wait for, that one fails or is silent, and that nobody reads."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from aiosched.db.server.engine import Database
from tests.parsing.test_parsers_seen import PARSERS, Beating, fleet_without_role, seen


@pytest.mark.parametrize(("silent", "figures", "status", "words"), PARSERS.values(), ids=PARSERS)
async def test_health_names_the_parser(
    db: Database, api: httpx2.AsyncClient, silent: float | None, figures: dict[str, Any],
    status: str, words: str,
) -> None:  # fmt: skip
    await fleet_without_role(db)
    if silent is not None:
        await seen(Beating(db), "p", silent=silent, **figures)
    api.base_url = httpx2.URL("http://localhost/")

    answer = await api.get("health")

    part = answer.json()["components"]["parser"]
    assert (part["status"], words in part["detail"]) == (status, True), part
    assert (part["fix"] is None) is (status == "healthy")
    assert answer.status_code == (503 if status == "unhealthy" else 200)
