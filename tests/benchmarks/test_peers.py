"""The comparison with other systems: who is measured when, what is stored and shown, and peers that really run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import pytest

from benchmarks.__main__ import main as all_benchmarks
from benchmarks.peers import environments, table
from benchmarks.peers.catalogue import COMPARED, JOBS, KINDS, Kind
from benchmarks.peers.command import main, tiny
from benchmarks.peers.measurements import Facts, Log, Measurement, Session
from benchmarks.peers.rounds import Plan, compare_on
from benchmarks.peers.servers import has, installed_server
from benchmarks.processes import temporary_folders
from benchmarks.shapes import SHAPES, Shape, levels, linear, sized
from tests.conftest import OLDER_SERVERS
from tests.databases import Server

CHAIN = Shape("chain-4", 1, 4, linear(4))
SESSION = Session("2026-01-01", "2 cores", "PostgreSQL 18", 0.0004, 0.1)


def measured(
    peer: str, *seconds: float, shape: str = "chain-200", ran: str = "", tasks: int = 200
) -> list[Measurement]:
    return [Measurement(peer, shape, number, ran or shape, tasks, each) for number, each in enumerate(seconds)]


def test_a_cell_is_the_median_of_the_rounds_with_their_spread() -> None:
    text = table.table([SESSION, *measured("local", 0.4, 0.1, 0.2), *measured("dask", 2.0, 1.0, 4.0)])

    assert "| `chain-200` | 1,000 | 100 (10.0) |" in text
    assert "| `chain-200` | 0.200 (0.100 to 0.400) | 2.00 (1.00 to 4.00) |" in text
    assert "Medians of 3 rounds" in text
    assert "2 cores; PostgreSQL 18, a durable commit 0.40 ms; load of the machine before it 0.1" in text


def test_a_smaller_size_is_named_and_compared_by_its_rate() -> None:
    text = table.table([*measured("local", 0.2), *measured("celery", 4.0, ran="chain-20", tasks=20)])

    assert "| `chain-200` | 1,000 | 5.00 (200) |" in text
    assert "4.00 (4.00 to 4.00, chain-20)" in text


def test_a_peer_that_failed_is_told_with_its_reason() -> None:
    failed = Measurement("dbos", "chain-200", 0, problem="DBOS could not be installed: no such version")

    text = table.table([*measured("local", 0.2), failed])

    assert "| `chain-200` | 1,000 | failed |" in text
    assert "- DBOS, `chain-200`, round 1: DBOS could not be installed: no such version" in text


def test_versions_and_settings_of_the_last_start_are_shown() -> None:
    facts = [Facts("dask", {"distributed": version}, "two workers") for version in ("1", "2")]

    assert "| Dask | distributed 2 | two workers |" in table.table([*facts, *measured("dask", 1.0)])


def test_a_round_that_was_measured_again_counts_once_and_another_size_not_at_all() -> None:
    entries = [*measured("local", 5.0, ran="chain-10", tasks=10), *measured("local", 0.4), *measured("local", 0.2)]

    assert table.rate(entries, "local", "chain-200") == 1000


def test_the_table_is_put_between_the_markers_of_a_page() -> None:
    page = f"# Page\n\n{table.BEGIN}\nold\n{table.END}\n\nrest\n"

    filled = table.put_into(page, "new")

    assert filled == f"# Page\n\n{table.BEGIN}\n\nnew\n\n{table.END}\n\nrest\n"
    assert table.put_into(filled, "new") == filled
    with pytest.raises(table.NoPlace, match="Add both"):
        table.put_into("# Page\n", "new")


@pytest.mark.parametrize("begins", [table.BEGIN, table.BEGIN_JOBS])
def test_the_page_of_benchmarks_has_a_place_for_each_table(begins: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text()

    assert f"{begins}\n\nnew\n" in table.put_into(page, "new", begins)


def test_one_off_jobs_are_compared_with_those_who_run_jobs() -> None:
    entries = [
        *measured("jobs", 1.0, shape="jobs-5000", tasks=5000),
        *measured("arq", 4.0, shape="jobs-5000", tasks=5000),
    ]

    text = table.table(entries)

    assert "| jobs/s (times aiosched) | aiosched `inline` | arq |" in text
    assert "| `jobs-5000` | 5,000 | 1,250 (4.0) |" in text


def test_levels_need_only_what_stands_in_levels_before() -> None:
    assert levels(sized(SHAPES["fan-1000"], 1, 5)) == [["t0000"], ["t0001", "t0002", "t0003"], ["t0004"]]
    assert [len(level) for level in levels(SHAPES["tree-100x10"])] == [1, 2, 4, 3]


@pytest.mark.parametrize("shape", COMPARED)
def test_a_shape_in_another_size_has_its_kind_of_edges(shape: Shape) -> None:
    assert sized(shape, shape.dags, shape.tasks) == (shape if shape.name != "fan-1000" else sized(shape, 1, 1002))
    assert tiny(KINDS["local"], shape).total <= 30
    assert len(levels(sized(shape, 2, 8))) == len(levels(tiny(KINDS["local"], shape))) or shape.edges


def test_every_peer_has_its_requirements_with_a_date_and_pinned_versions() -> None:
    for kind in KINDS.values():
        if not kind.own:
            head, *lines = (environments.REQUIREMENTS / f"{kind.module}.txt").read_text().splitlines()
            assert head.startswith("# The newest stable release on 20")
            assert all("==" in line for line in lines if not line.startswith("#"))


@pytest.mark.parametrize("number", ["0", "-3", "many"])
@pytest.mark.parametrize("words", [["scaling", "--size"], ["chain-1000", "--size"], ["peers", "--rounds"]])
def test_sizes_and_rounds_below_one_are_refused(
    words: list[str], number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        all_benchmarks([*words, number])

    assert refused.value.code == 2
    assert f"argument {words[-1]}: {number}" in capsys.readouterr().err.replace("'", "")


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["nobody"], ["dask", "--shapes", "chain-7"], ["--jobs", "dask"]):
        with pytest.raises(SystemExit):
            main(words)

    assert "unknown peers: nobody; there are dask" in capsys.readouterr().err


def test_a_page_without_a_place_is_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n")

    assert main(["dask", "--into", str(page)]) == 2
    assert "Add both" in capsys.readouterr().err


async def compared(
    server: Server, folder: Path, kinds: Sequence[Kind], log: Log, shapes: Sequence[Shape], count: int = 1
) -> list[str]:
    """What was said while these were measured on a fresh database of the session's server."""
    said: list[str] = []
    dsn = await server.create("template0")
    plan = Plan(kinds, shapes, count, Kind.size_of)
    await compare_on(dsn, folder, plan, log, folder / "cache", said.append)
    await server.drop(dsn)
    return said


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Peers of a folder of their own: `runs` does what it is asked, `dies` does not, `skips` leaves a task out."""
    folder = tmp_path / "path"
    shutil.copytree(
        environments._ROOT / "benchmarks", folder / "benchmarks", ignore=shutil.ignore_patterns("__pycache__")
    )
    text = (Path(__file__).parent / "fake_peer.py").read_text()
    for name in ("runs", "dies", "skips"):
        (folder / "benchmarks" / "peers" / f"{name}.py").write_text(text.replace("NAME", name))
    monkeypatch.setattr(environments, "_ROOT", folder)
    return tmp_path


def kinds_named(*names: str) -> list[Kind]:
    return [Kind(name, name.title(), name, own=True) for name in names]


async def test_peers_take_turns_in_every_round_and_a_failed_one_stops_nobody(server: Server, fake: Path) -> None:
    log = Log(fake / "log.jsonl", goes_on=False)

    said = await compared(server, fake, kinds_named("dies", "skips", "runs"), log, [CHAIN], count=2)

    found = [entry for entry in log.entries if isinstance(entry, Measurement)]
    assert [(entry.peer, entry.number, entry.seconds is not None) for entry in found] == [
        ("dies", 0, False),
        ("skips", 0, False),
        ("runs", 0, True),
        ("skips", 1, False),
        ("runs", 1, True),
    ]
    assert found[0].problem == "Dies failed: RuntimeError: it has died"
    assert found[1].problem.startswith("1 tasks never ran")
    assert [line for line in said if "getting ready" in line][-1] == "round 2 of 2, runs: getting ready"
    assert next(entry for entry in log.entries if isinstance(entry, Facts)).settings == "a fake"


async def test_one_that_was_interrupted_goes_on_with_what_is_missing(server: Server, fake: Path) -> None:
    await compared(server, fake, kinds_named("runs"), Log(fake / "log.jsonl", goes_on=False), [CHAIN])

    again = Log(fake / "log.jsonl", goes_on=True)
    before = list(again.entries)
    await compared(server, fake, kinds_named("runs"), again, [CHAIN], count=2)

    assert again.entries[: len(before)] == before
    assert [e.number for e in again.entries if isinstance(e, Measurement)] == [0, 1]


async def test_a_peer_whose_extension_no_server_has_is_told_so(server: Server, fake: Path) -> None:
    log = Log(fake / "log.jsonl", goes_on=False)
    kind = Kind("runs", "Runs", "runs", own=True, extension="no_such_extension")

    await compared(server, fake, [kind], log, [CHAIN])

    (found,) = (entry for entry in log.entries if isinstance(entry, Measurement))
    assert found.problem.startswith("It needs PostgreSQL's extension no_such_extension")


@pytest.mark.parametrize("programs", list(OLDER_SERVERS.values())[:1])  # none is asked for by name
async def test_a_peer_that_needs_an_extension_gets_a_server_of_the_machine(programs: Path) -> None:
    with temporary_folders() as folders, installed_server("plpgsql", folders.root / "server") as dsn:
        conn = await asyncpg.connect(dsn)
        found = await conn.fetchval("SHOW fsync"), await conn.fetchval("SHOW synchronous_commit")
        await conn.close()
        assert await has(dsn, "plpgsql")

    assert (found, programs.name) == (("on", "on"), "bin")


@pytest.mark.parametrize("name", ["dask", "celery", "local", "jobs"])
async def test_a_real_peer_runs_a_shape_of_each_kind(server: Server, tmp_path: Path, name: str) -> None:
    """With what is installed for the tests; its processes start and end: that takes some seconds."""
    kind = Kind(name, name, KINDS[name].module, KINDS[name].arguments, own=True)
    names = ("linear-10x100", "tree-100x10", "fan-1000") if name in ("dask", "celery") else ("tree-100x10",)
    shapes = [sized(SHAPES[shape], min(SHAPES[shape].dags, 2), 7) for shape in names]
    if name == "jobs":
        names, shapes = ("jobs",), [JOBS.resized(20)]
    log = Log(tmp_path / "log.jsonl", goes_on=False)

    await compared(server, tmp_path, [kind], log, shapes)

    found = [entry for entry in log.entries if isinstance(entry, Measurement)]
    assert [entry.problem for entry in found] == [""] * len(names)
    assert all(entry.seconds is not None and 0 < entry.seconds < 60 for entry in found)


async def test_an_environment_is_made_once_and_one_that_cannot_be_made_says_what_pip_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirements = tmp_path / "requirements"
    requirements.mkdir()
    (requirements / "empty.txt").write_text("# The newest stable release on 2026-01-01.\n")
    (requirements / "wrong.txt").write_text("./nowhere\n")
    monkeypatch.setattr(environments, "REQUIREMENTS", requirements)

    python = await environments.python_for(Kind("empty", "Empty", "empty"), tmp_path)
    (mark := tmp_path / python.removesuffix("bin/python") / "mark").touch()

    assert await environments.python_for(Kind("empty", "Empty", "empty"), tmp_path) == python
    assert mark.exists()
    with pytest.raises(environments.NotInstalled, match=r"Wrong could not be installed: ERROR: .*nowhere"):
        await environments.python_for(Kind("wrong", "Wrong", "wrong"), tmp_path)
