"""Where variables and connections come from, as administrators see it: names, never values."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from aiosched.config import SecretsSettings
from aiosched.core.values.connections import ConnectionValue
from aiosched.db.crypto.keyring import Keyring, new_key
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.db.server.engine import Database
from aiosched.web.requests.request_client import RequestClient
from tests.web.logins import log_in


async def test_administrators_see_where_each_comes_from(
    api: httpx2.AsyncClient,
    request_client: RequestClient,
    db: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "region").write_text("sesame")
    monkeypatch.setenv("AIOSCHED_VAR_SIZE", "sesame")
    tables = [
        {"kind": "files", "variables": str(tmp_path)},
        {"kind": "vault", "url": "http://127.0.0.1:9", "token": "t"},
    ]
    request_client.settings.secrets = SecretsSettings.model_validate(
        {"backends": tables, "fernet_keys": new_key(), "timeout": 60}
    )
    store = SecretStore(db, Keyring.of(request_client.settings))
    await store.set_variables({name: VariableValue("sesame") for name in ("region", "size", "only")})
    await store.set_connections([ConnectionValue(conn_id="shop", conn_type="http", password="sesame")])

    answer = await api.get("secret-sources")

    found = {(one["kind"], one["name"], one["source"]): one["hidden_by"] for one in answer.json()["items"]}
    assert found == {
        ("variable", "only", "database"): None,
        ("variable", "region", "files"): None,
        ("variable", "region", "database"): "files",
        ("variable", "size", "environment"): None,
        ("variable", "size", "database"): "environment",
        ("connection", "shop", "database"): None,
    }
    problems = answer.json()["problems"]
    assert [problem.split(" was ")[0] for problem in problems] == ["The backend vault"], problems
    assert "sesame" not in answer.text


@pytest.mark.parametrize(("role", "status"), [("viewer", 403), ("operator", 403), ("admin", 200)])
async def test_nobody_else_does(browser: httpx2.AsyncClient, role: str, status: int) -> None:
    await log_in(browser, role)

    assert (await browser.get("secret-sources")).status_code == status
