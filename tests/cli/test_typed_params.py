"""Params of all types from the command line to the task: `-p name=value` and `--conf`, tests, triggers, backfills."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.serving import living
from tests.databases import Server

DAG = """
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from aiosched import DAG, Param, task

class Color(Enum):
    RED = "red"
    BLUE = "blue"

with DAG("typed", schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False, params={
    "text": "1.0",
    "string": Param("x", type="string"),
    "day": date(2026, 1, 2),
    "at": datetime(2026, 1, 2, 3, 4),
    "span": timedelta(hours=1),
    "price": Decimal("1.50"),
    "color": Color.RED,
    "pair": (1, 2),
    "nested": Param({"a": {"b": [1]}}, type="object", properties={"a": {"type": "object"}}, additionalProperties=False),
    "number": Param(1.5, type="number", minimum=0),
    "flag": Param(False, type="boolean"),
    "choice": Param("a", enum=["a", "b", "1"]),
    "maybe": Param(None, type=["null", "string"]),
}):
    @task
    def show(params=None, run_id=None):
        if not run_id.startswith("scheduled"):  # a live scheduler makes that run by itself, at any time
            Path(HERE, "shown").write_text(repr(list(params.items())))

    @task
    def later(day, days, factor):
        Path(HERE, f"day-{day}").write_text(repr((day + days, factor)))

    show()
    later.partial(days=timedelta(days=1), factor=Decimal("2.50")).expand(day=[date(2026, 1, 1), date(2026, 2, 1)])
"""
GIVEN = (
    "text=1.10", "string=007", "day=2026-05-06", "at=2026-05-06T07:08:09", "span=60", "price=12345678901234567.80",
    "color=blue", "pair=[3, 4]", 'nested={"a": {"c": null}}', "number=2", "flag=true", "choice=1", "maybe=12",
)  # fmt: skip
SHOWN = (
    "[('text', '1.10'), ('string', '007'), ('day', datetime.date(2026, 5, 6)), "
    "('at', datetime.datetime(2026, 5, 6, 7, 8, 9)), ('span', datetime.timedelta(seconds=60)), "
    "('price', Decimal('12345678901234567.80')), ('color', <Color.BLUE: 'blue'>), ('pair', (3, 4)), "
    "('nested', {'a': {'c': None}}), ('number', 2), ('flag', True), ('choice', '1'), ('maybe', '12')]"
)
OPTIONS = [word for one in GIVEN for word in ("-p", one)]


def written(folder: Path) -> Path:
    """The folder, with its DAG in `dags`."""
    (folder / "dags").mkdir()
    (folder / "dags" / "typed.py").write_text(f"HERE = {str(folder)!r}\n{DAG}")
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return written(tmp_path)


def shown(folder: Path) -> str:
    text = (folder / "shown").read_text()
    (folder / "shown").unlink()
    return text


def test_a_test_run_has_what_was_typed(cli: Cli, place: Path) -> None:
    assert cli.json("dags", "test", "typed", "--dags", str(place / "dags"), *OPTIONS)["state"] == "success"
    assert shown(place) == SHOWN
    assert (place / "day-2026-02-01").read_text() == "(datetime.date(2026, 2, 2), Decimal('2.50'))"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("day=tomorrow", "is no date"),
        ("price=dear", "is no decimal"),
        ("color=green", "green"),
        ("number=-1", "below the minimum 0"),
        ("number=many", "is not of type number"),
        ("flag=yes", "is not of type boolean"),
        ("choice=c", "is not one of"),
        ('nested={"x": 1}', "the key 'x' is not allowed"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_param(cli: Cli, place: Path, given: str, problem: str) -> None:
    said = cli("dags", "test", "typed", "--dags", str(place / "dags"), "-p", given, code=None).stderr
    assert f"Param '{given.partition('=')[0]}'" in said
    assert problem in said
    assert "Traceback" not in said


@pytest.mark.parametrize("conf", ["[" * 100_000, '{"number": ' + "9" * 5_000 + "}", "{", "[]"], ids=range(4))
def test_a_conf_that_cannot_be_read_is_a_mistake_of_the_command(cli: Cli, place: Path, conf: str) -> None:
    said = cli("dags", "test", "typed", "--dags", str(place / "dags"), "--conf", conf, code=2).stderr
    assert "--conf" in said
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def live(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cli, Path]]:
    folder = written(tmp_path_factory.mktemp("typed"))
    with living(server, folder) as cli:
        yield cli, folder


@pytest.mark.slow
def test_a_triggered_run_has_what_was_typed(live: tuple[Cli, Path]) -> None:
    cli, folder = live
    cli("dags", "trigger", "typed", "--wait", *OPTIONS)
    assert shown(folder) == SHOWN
    assert (folder / "day-2026-02-01").read_text() == "(datetime.date(2026, 2, 2), Decimal('2.50'))"


@pytest.mark.slow
def test_a_conf_and_single_values_go_together(live: tuple[Cli, Path]) -> None:
    cli, folder = live
    conf = {"text": "2.0", "day": "2026-03-04", "number": 9, "more": 1.5}
    cli("dags", "trigger", "typed", "--wait", "--conf", json.dumps(conf), "-p", "number=3", "-p", "extra=1.10")
    found = shown(folder)
    for part in ("('text', '2.0')", "('day', datetime.date(2026, 3, 4))", "('number', 3)", "('more', 1.5)"):
        assert part in found
    assert "('extra', 1.1)" in found


@pytest.mark.slow
def test_the_runs_of_a_backfill_have_what_was_typed(live: tuple[Cli, Path]) -> None:
    cli, folder = live
    days = ("--from", "2026-01-05", "--to", "2026-01-05")
    assert len(cli.json("backfill", "create", "typed", *days, *OPTIONS, "--dry-run")["dates"]) == 1
    cli("backfill", "create", "typed", *days, *OPTIONS, "--watch")
    assert shown(folder) == SHOWN
    refused = cli("backfill", "create", "typed", *days, "-p", "number=many", code=None).stderr
    assert "Param 'number'" in refused
