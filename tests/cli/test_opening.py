"""`--open`: the page of what is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.records import add_dag, add_run, add_task


@pytest.mark.parametrize("browser", [True, False])
def test_the_page_of_what_is_shown_is_opened_and_named(
    on_db: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: bool
) -> None:
    async def seed(db: Database) -> None:
        run = await add_run(db, "sales", await add_dag(db, "sales"), "manual__1+2", state="failed")
        for index in range(2):
            await add_task(db, run, 1, "failed", map_index=index)

    opened: list[str] = []

    def browse(url: str) -> bool:
        opened.append(url)
        return browser

    monkeypatch.setattr("webbrowser.open", browse)
    on_db.work(seed)
    cli = Cli(on_db.dsn, tmp_path / "home")
    run = "http://127.0.0.1:8484/dags/sales/runs/manual__1%2B2"

    for words, address in (
        (("dags", "show", "sales"), r"http://127.0.0.1:8484/dags/sales\?token=\S+"),
        (("runs", "show", "sales"), rf"{re.escape(run)}\?token=\S+"),
        (("tasks", "show", "sales", "latest", "load"), rf"{re.escape(run)}/tasks/load\?token=\S+"),
        (("tasks", "show", "sales", "latest", "load[1]"), rf"{re.escape(run)}/tasks/load\?map_index=1&token=\S+"),
    ):
        result = cli(*words, "--open")

        said = result.stderr.splitlines()
        assert re.fullmatch(address, said[0])
        assert ("there is no browser on this machine: open the address by hand" in said) is not browser
        assert len(result.stdout.splitlines()) > 1
    assert len(opened) == 4
