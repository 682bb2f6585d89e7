"""`--open`: the page of what is shown."""

from __future__ import annotations

import re
import socket
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from aiosched.cli.base.opening import list_path
from aiosched.db.lists.chosen import WantedRuns
from aiosched.db.lists.of_dags import OfDags
from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.records import NOON, add_dag, add_run, add_task


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
        (("why", "sales", "latest", "load[1]"), rf"{re.escape(run)}/tasks/load\?map_index=1&token=\S+"),
        (("why", "sales"), r"http://127.0.0.1:8484/dags/sales\?token=\S+"),
        (("runs", "list"), r"http://127.0.0.1:8484/runs\?token=\S+"),
        (
            ("tasks", "instances", "--state", "failed", "--error", "a b"),
            r"http://127.0.0.1:8484/task-instances\?state=failed&reason=a\+b&token=\S+",
        ),
    ):
        result = cli(*words, "--open")

        said = result.stderr.splitlines()
        assert any(re.fullmatch(address, line) for line in said)
        assert ("there is no browser on this machine: open the address by hand" in said) is not browser
        assert result.stdout or "no such" in result.stderr
    assert len(opened) == 8


def test_the_page_of_a_list_has_its_filters() -> None:
    assert list_path("runs", WantedRuns()) == "/runs"
    ended = WantedRuns(states=("failed", "running"), ended_since=NOON, dags=OfDags(tags=("a", "b")), min_seconds=5)
    assert parse_qs(list_path("runs", ended).partition("?")[2]) == {
        "state": ["failed", "running"],
        "tag": ["a", "b"],
        "time": ["range"],
        "from": [f"{NOON:%Y-%m-%d}"],
        "longer": ["5"],
        "order": ["-end_date"],
    }
    midnight = NOON.replace(hour=0)
    days = [list_path("runs", WantedRuns(until=until)).rpartition("to=")[2] for until in (midnight, NOON)]
    assert days == [f"{midnight:%Y-%m-%d}", f"{midnight + timedelta(days=1):%Y-%m-%d}"]


def test_an_address_at_which_nothing_answers_is_named(on_db: Cli, tmp_path: Path) -> None:
    cli = Cli(on_db.dsn, tmp_path / "home")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "web.address").write_text(f"{url}\n")

        silent = cli("web", "address")
        other.listen()
        answered = cli("web", "address")

    assert silent.stdout.startswith(f"{url}/?token=")
    assert silent.stderr.splitlines() == [f"nothing answers at {url} yet: `aiosched serve` starts the web server"]
    assert (answered.stdout.startswith(f"{url}/?token="), answered.stderr) == (True, "")
