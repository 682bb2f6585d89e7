"""`doctor`, `schedulers check --local` and the real process of a parser that runs alone."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.serving import serve, stop, wait_for
from tests.parsing.test_parsers_seen import NOON, PARSERS, Beating, fleet_without_role, seen


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
