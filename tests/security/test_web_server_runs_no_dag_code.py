"""The web server never imports code of DAG authors: it needs neither their files nor the keys, whatever is asked."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from aiosched.db.server.engine import Database
from tests.foreign_rows import seed

# A web server in a process of its own answers every GET of its document. It says which answers failed, which processes
# it has started, and whether it has imported what loads DAG files.
ASKS = """
import asyncio, json, sys
from pathlib import Path

import httpx2

from aiosched.config.sources import load_settings
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from tests.web.walks import PAGES

started = []
STARTS = ("subprocess.Popen", "os.fork", "os.exec", "os.posix_spawn")
sys.addaudithook(lambda name, args: started.append(name) if name in STARTS else None)


async def main():
    settings = load_settings().settings
    async with await Database.open(settings.database.dsn, settings=settings.database) as db:
        app = make_app(RequestClient(db, settings))
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answers = {address: (await client.get(address)).status_code for _, address in PAGES}
            rendered = "/api/v1/dags/sales/runs/r1/tasks/g.extract/rendered"
            fields = (await client.get(rendered)).json()["fields"]
    loaders = [name for name in sys.modules if name in ("aiosched.authoring.dag.loader", "cryptography.fernet")]
    print(json.dumps({"answers": answers, "fields": fields, "started": started, "loaders": loaders}))


asyncio.run(main())
"""


async def test_all_pages_are_answered_without_dag_files_and_keys(dsn: str, db: Database, tmp_path: Path) -> None:
    await seed(db)
    nowhere = tmp_path / "nowhere"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIOSCHED")}
    environment |= {"AIOSCHED_DSN": dsn, "AIOSCHED_DAGS": str(nowhere), "AIOSCHED_HOME": str(tmp_path / "home")}

    root = Path(__file__).parents[2]
    asked = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ASKS, env=environment, cwd=root, stdout=PIPE, stderr=PIPE
    )
    out, said = await asked.communicate()

    assert asked.returncode == 0, said.decode()
    found = json.loads(out)
    failed = {
        address: status
        for address, status in found["answers"].items()
        if status >= 400 and address not in ("/health", "/readyz")
    }
    assert failed == {}
    assert found["fields"] == {"sql": "select 1"}
    assert found["started"] == []
    assert found["loaders"] == []
