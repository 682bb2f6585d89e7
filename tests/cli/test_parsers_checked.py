"""`doctor`, `schedulers check --local` and the real process of a parser that runs alone."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.serving import serve, stop, wait_for
from tests.parsing.test_parsers_seen import NOON, PARSERS, Beating, fleet_without_role, seen
from tests.patience import PATIENCE


@pytest.mark.parametrize(("silent", "figures", "status", "words"), PARSERS.values(), ids=PARSERS)
def test_the_doctor_names_the_parser(
    on_db: Cli, silent: float | None, figures: dict[str, Any], status: str, words: str
) -> None:
    async def prepare(db: Database) -> None:
        await fleet_without_role(db)
        if silent is not None:
            await seen(Beating(db), "p", silent=silent, **figures)

    on_db.work(prepare)
    is_wrong = status == "unhealthy"

    (found,) = [one for one in on_db.json("doctor", code=int(is_wrong)) if one["check"] == "parsers"]

    assert found["status"] == {"healthy": "ok", "degraded": "warning", "unhealthy": "error"}[status]
    assert words in found["text"]


def test_the_health_check_of_a_container_is_content_with_a_parser(on_db: Cli) -> None:
    """The image's own check: without a scheduler here, a parser of this host will do."""

    async def parse(db: Database) -> None:
        await seen(Beating(db), "p", silent=1.0, listed_at=NOON)

    async def be_silent(db: Database) -> None:
        await Beating(db).is_silent("p", 31.0)

    async def be_elsewhere(db: Database) -> None:
        await Beating(db).execute("UPDATE parser SET hostname = 'elsewhere', renewed_at = now()")

    assert "no scheduler on" in on_db("schedulers", "check", "--local", code=1).stderr
    on_db.work(parse)
    assert "the parser p reads the DAGs folder" in on_db("schedulers", "check", "--local").stderr
    on_db("schedulers", "check", code=1)
    on_db.work(be_silent)
    assert "no heartbeat from the parser p" in on_db("schedulers", "check", "--local", code=1).stderr
    on_db.work(be_elsewhere)
    on_db("schedulers", "check", "--local", code=1)


@pytest.mark.slow
def test_a_real_parser_that_is_stopped_is_silent_and_goes_on_beside_another(
    tmp_path: Path, on_db: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGSTOP, as of a machine that hangs or a container that is frozen; another one has its bundle meanwhile."""
    dags = tmp_path / "dags"
    dags.mkdir()
    monkeypatch.setenv("AIOSCHED__WEB__AUTH", "none")
    for name in ("fleet", "stopped", "other"):
        (tmp_path / name).mkdir()

    def write(dag_id: str) -> None:
        (dags / f"{dag_id}.py").write_text(f"from aiosched import DAG\nwith DAG('{dag_id}', schedule=None): ...\n")

    async def time_passes(db: Database) -> None:
        await Beating(db).is_silent("stopped", 40.0)
        await Beating(db).execute("UPDATE scheduler SET started_at = started_at - interval '1 minute'")

    def alone(name: str) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
        return serve(tmp_path / name, str(on_db.dsn), "--role", "parser", "--name", name, "--dags", str(dags))

    def told() -> tuple[str, list[str]]:
        """What `/health` and Home say of parsers."""
        part = get(f"{url}/health")["components"]["parser"]
        home = [one["words"] for one in get(f"{url}/api/v1/summary")["attention"] if "parser" in one["words"]]
        return f"{part['status']}: {part['detail']}", home

    def until(what: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < until, told()

    write("before")
    words = ("--role", "scheduler,web", "--port", "0")
    with serve(tmp_path / "fleet", str(on_db.dsn), *words) as fleet, alone("stopped") as stopped:
        url = wait_for(fleet, "web")["url"].rstrip("/")
        wait_for(fleet, "ready", read=False)
        wait_for(stopped, "ready")
        stopped.send_signal(signal.SIGSTOP)
        on_db.work(time_passes)
        silent = "no heartbeat from the parser stopped for 4"
        until(lambda: told()[0].startswith(f"unhealthy: {silent}"))
        assert [words.startswith(f"parser: {silent}") for words in told()[1]] == [True]
        (found,) = [one for one in on_db.json("doctor", code=1) if one["check"] == "parsers"]
        assert (found["status"], found["text"].startswith(silent)) == ("error", True)

        with alone("other") as other:
            wait_for(other, "ready")
            until(lambda: "the parser other" in told()[0] and "stopped" not in told()[0])
            assert (told()[0].partition(":")[0], told()[1]) == ("healthy", [])
            stopped.send_signal(signal.SIGCONT)
            until(lambda: "the parser stopped reads" in told()[0])
            assert "the parser other reads" in told()[0]
            write("beside")
            until(lambda: "beside" in on_db("dags", "list").stdout)
            said = stop(other)
            assert other.returncode == 0, said
        write("after")
        until(lambda: "after" in on_db("dags", "list").stdout)
        until(lambda: told()[0].startswith("healthy: 3 DAGs in 3 files; the parser stopped reads"))
        for process in (stopped, fleet):
            said = stop(process)
            assert process.returncode == 0, said
            assert '"error"' not in said


def get(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(url) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:  # it is not healthy
        return dict(json.load(error))


@pytest.mark.slow
def test_a_real_parser_is_seen_killed_and_replaced(tmp_path: Path, on_db: Cli) -> None:
    (tmp_path / "dags").mkdir(exist_ok=True)
    (tmp_path / "dags" / "d.py").write_text("from aiosched import DAG\nwith DAG('d', schedule=None): ...\n")
    words = ("--role", "parser", "--name", "apart")

    async def is_silent(db: Database) -> None:
        await Beating(db).is_silent("apart", 40.0)

    with serve(tmp_path, str(on_db.dsn), *words) as process:
        wait_for(process, "ready")
        assert "apart reads the DAGs folder" in on_db("schedulers", "check", "--local").stderr
        process.send_signal(signal.SIGKILL)
        process.wait()
    on_db.work(is_silent)
    (found,) = [one for one in on_db.json("doctor", code=1) if one["check"] == "parsers"]
    assert found["text"].startswith("no heartbeat from the parser apart for 4")

    with serve(tmp_path, str(on_db.dsn), *words) as process:
        wait_for(process, "ready")
        on_db("schedulers", "check", "--local")
        said = stop(process)
        assert process.returncode == 0, said
    (found,) = [one for one in on_db.json("doctor", code=1) if one["check"] == "parsers"]
    assert found["text"].startswith("no heartbeat"), "the one that left says nothing, the killed one is still named"
