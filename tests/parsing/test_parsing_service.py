"""The parser of one scheduler, with real files, processes and a database. Nothing here sleeps: changes are awaited.

Source: the semantics reference, sections 30.1 to 30.4.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from aiosched.core.values.ids import partition_of
from aiosched.db.statements.inbox import NOTIFY_CHANNEL, read_notification
from aiosched.parsing import service, storing
from aiosched.parsing.pool import ParsingPool
from aiosched.parsing.progress import Outcomes
from aiosched.parsing.service import Parser
from aiosched.parsing.store import StoredFiles
from tests.database_answers import OF_THE_DATABASE
from tests.parsing.bench import Bench, Heard
from tests.parsing.builders import dag_source, settings_for
from tests.patience import PATIENCE, until


async def test_the_first_pass_stores_every_file(bench: Bench) -> None:
    bench.write("good.py", dag_source("a", "b"))
    bench.write("bad.py", "raise ValueError('no')  # aiosched dag")
    (bench.folder / "loop").symlink_to(bench.folder)

    async with bench.running() as parser:
        assert await bench.dags() == {"a": ("good.py", False, False, 1), "b": ("good.py", False, False, 1)}
        errors = await bench.errors()
        assert (errors["good.py"], errors["bad.py"]) == (None, "ValueError: no")
        assert "Remove the link" in (errors["loop"] or "")
        assert (parser.stats.files, parser.stats.dags, parser.stats.errors) == (2, 2, 2)
        assert parser.stats.seconds > 0
        assert parser.has_read_all
    assert sorted(bench.heard.dag_ids) == ["a", "b"]


async def test_an_empty_or_missing_folder_has_a_first_pass_too(bench: Bench) -> None:
    async with bench.running() as parser:
        assert parser.stats.files == 0
    bench.folder.rmdir()
    async with bench.running() as parser:
        assert parser.stats.files == 0


async def test_an_edited_file_is_parsed_again_and_the_owners_are_told(bench: Bench, dsn: str) -> None:
    bench.write("a.py", dag_source("a"))
    async with bench.running():
        await bench.heard.next()
        listener = await asyncpg.connect(dsn)
        told: asyncio.Queue[str] = asyncio.Queue()
        await listener.add_listener(NOTIFY_CHANNEL, lambda *said: told.put_nowait(said[3]))

        bench.write("a.py", dag_source("a", "b"))

        assert await bench.heard.next() == ["a", "b"], "the source of both has changed"
        async with asyncio.timeout(PATIENCE):
            assert read_notification(await told.get()) == ("dags", frozenset({partition_of("a"), partition_of("b")}))
        await listener.close()


async def test_a_new_file_a_broken_one_a_mended_one_and_a_deleted_one(bench: Bench) -> None:
    async with bench.running():
        bench.write("sub/a.py", dag_source("a"))
        assert await bench.heard.next() == ["a"]

        bench.write("sub/a.py", dag_source("a", before="1 / 0"))
        assert await bench.heard.next() == ["a"]
        assert (await bench.dags())["a"] == ("sub/a.py", True, True, 1)
        assert await bench.errors() == {"sub/a.py": "ZeroDivisionError: division by zero"}

        bench.write("sub/a.py", dag_source("a"))
        assert await bench.heard.next() == ["a"]
        assert (await bench.dags())["a"] == ("sub/a.py", False, False, 1)

        (bench.folder / "sub" / "a.py").unlink()
        assert await bench.heard.next() == ["a"]
        assert (await bench.dags())["a"] == ("sub/a.py", True, False, 1)
        assert await bench.errors() == {}


async def test_a_comment_makes_no_version(bench: Bench) -> None:
    bench.write("a.py", dag_source("a"))
    async with bench.running() as parser:
        await bench.heard.next()
        await bench.execute(
            "INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after) "
            "SELECT dag_id, 'r', partition, version_id, 'manual', 'test', 'queued', now() FROM dag"
        )

        bench.write("a.py", dag_source("a") + "# a comment\n")
        bench.write("b.py", dag_source("b"))  # older than the comment's change, stored with it or after it
        assert await bench.heard.next() == ["b"]
        bench.write("a.py", dag_source("a", tasks=2))
        assert await bench.heard.next() == ["a"]

        assert (await bench.dags())["a"] == ("a.py", False, False, 2)
        assert parser.stats.files == 2


async def test_a_renamed_file_keeps_its_dag(bench: Bench) -> None:
    bench.write("old.py", dag_source("a"))
    async with bench.running():
        await bench.heard.next()

        (bench.folder / "old.py").rename(bench.folder / "new.py")
        while (await bench.dags())["a"] != ("new.py", False, False, 1):
            await bench.heard.next()

        assert await bench.errors() == {"new.py": None}


async def test_a_change_of_a_helper_parses_those_who_import_it(bench: Bench) -> None:
    bench.write("helper.py", "TASKS = 1")
    bench.write("user.py", "import helper\n" + dag_source("user").replace("task_id='t0'", "task_id=f't{helper.TASKS}'"))
    bench.write("other.py", dag_source("other"))
    async with bench.running():
        await bench.heard.next()

        bench.write("helper.py", "TASKS = 2")

        assert "user" in await bench.heard.next()
        spec = await bench.db.fetchval("SELECT spec FROM dag_version WHERE dag_id = 'user'")
        assert '"t2"' in spec


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("change", ["edit", "add"])
async def test_a_change_of_data_parses_those_who_read_it(bench: Bench, change: str) -> None:
    reads = "from pathlib import Path\nNAMES = [(Path(__file__).parent / 'conf' / 'first.txt').read_text()]\n"
    reads += "NAMES += [each.stem for each in Path(__file__).parent.glob('conf/*.yaml')]\n"
    (bench.folder / "conf").mkdir(parents=True)
    bench.write("conf/first.txt", "one")
    bench.write(
        "user.py", reads + dag_source("user") + "\nfor name in NAMES:\n    globals()[name] = DAG(dag_id=name)\n"
    )
    settings = bench.settings
    settings.parsing.min_file_process_interval = 0
    async with bench.running(settings=settings):
        assert set(await bench.heard.next()) >= {"one", "user"}

        bench.write(*(("conf/first.txt", "two") if change == "edit" else ("conf/two.yaml", "")))
        while "two" not in await bench.dags():
            await bench.heard.next()


@pytest.mark.parametrize("before", ["broken", None])
async def test_data_that_broke_a_file_is_looked_at_again(bench: Bench, before: str | None) -> None:
    reads = "from pathlib import Path\nNUMBER = int((Path(__file__).parent / 'number').read_text())\n"
    bench.write("user.py", reads + dag_source("user"))
    if before is not None:
        bench.write("number", before)
    async with bench.running():
        assert (await bench.errors())["user.py"]

        bench.write("number", "1")

        assert await bench.heard.next() == ["user"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.py", "helper.py"])
async def test_what_is_written_while_it_is_imported_is_parsed_again(bench: Bench, tmp_path: Path, name: str) -> None:
    go, began, settings = tmp_path / "go", tmp_path / "began", bench.settings
    settings.parsing.processes = 2
    wait = f"import os, time; open({str(began)!r}, 'w'); go = {str(go)!r}"
    wait += "\nwhile not os.path.exists(go): time.sleep(0.01)\n"
    texts = {"a.py": dag_source("a_{}", before=f"import helper\n{wait}"), "helper.py": "WORD = '{}'\n"}
    texts["a.py"] += "with DAG(f'helper_{{helper.WORD}}'): EmptyOperator(task_id='t')\n"
    async with bench.running(settings=settings):
        for file in ("helper.py", "a.py"):
            bench.write(file, texts[file].format("one"))
        async with asyncio.timeout(PATIENCE):
            while not began.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        bench.write(name, texts[name].format("two"))
        bench.write("b.py", dag_source("b"))
        assert await bench.heard.next() == ["b"]  # the folder was listed meanwhile
        go.touch()

        async with asyncio.timeout(PATIENCE):
            while f"{'a' if name == 'a.py' else 'helper'}_two" not in await bench.dags():
                await bench.heard.next()


async def test_a_dag_id_passes_to_the_second_file_when_the_first_is_deleted(bench: Bench) -> None:
    bench.write("a.py", dag_source("x"))
    bench.write("b.py", dag_source("x", "y"))
    async with bench.running() as parser:
        await bench.heard.next()
        winner = (await bench.dags())["x"][0]
        assert winner is not None
        loser = {"a.py": "b.py", "b.py": "a.py"}[winner]
        assert f"already defined in {winner}" in ((await bench.errors())[loser] or "")
        assert (parser.stats.dags, parser.stats.errors) == (2, 1)

        (bench.folder / winner).unlink()
        while (await bench.dags())["x"][:2] != (loser, False):
            await bench.heard.next()

        assert await bench.errors() == {loser: None}


async def test_only_the_files_of_owned_partitions_are_parsed_and_deleted(bench: Bench) -> None:
    names = [f"f{n}.py" for n in range(6)]
    mine = {partition_of(name) for name in names[:3]}
    for name in names:
        bench.write(name, dag_source(name.removesuffix(".py")))

    async with bench.running(owns=lambda p: p in mine):
        assert sorted(await bench.errors()) == names[:3]
    async with bench.running(owns=lambda p: p not in mine):
        assert sorted(await bench.errors()) == names
        (bench.folder / names[0]).unlink()
        (bench.folder / names[5]).unlink()
        while not (await bench.dags())["f5"][1]:
            await bench.heard.next()
        assert sorted(await bench.errors()) == names[:5]


async def test_files_that_move_here_unchanged_are_not_parsed_again(bench: Bench) -> None:
    bench.write("same.py", dag_source("same"))
    bench.write("changed.py", dag_source("changed"))
    async with bench.running():
        pass
    bench.heard = Heard()
    owned = False
    async with bench.running(owns=lambda _: owned) as parser:
        await bench.execute("UPDATE dag SET is_stale = true")  # a parse would mend it
        bench.write("changed.py", dag_source("changed", tasks=2))
        owned = True
        parser.refresh()

        assert await bench.heard.next() == ["changed"]
        assert parser.stats.files == 2
        assert (await bench.dags())["same"][1] is True


async def test_the_first_pass_waits_until_it_is_known_whose_the_files_are(bench: Bench) -> None:
    """As while a scheduler that had an error right after its start reads again what it owns."""
    bench.write("a.py", dag_source("a"))
    owned = False
    parser = Parser(
        bench.settings, bench.db, clock=bench.clock, owns=lambda _: owned, knows_owned=lambda: owned,
        on_change=bench.heard,
    )  # fmt: skip
    running = asyncio.create_task(parser.run())
    async with asyncio.timeout(PATIENCE):
        while parser.listed_at is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert not parser.first_pass.done()
        owned = True
        parser.refresh()
        await parser.first_pass

    assert list(await bench.dags()) == ["a"]
    parser.stop()
    await running


async def test_unchanged_files_are_parsed_again_after_the_interval_and_rows_that_vanished_come_back(
    bench: Bench,
) -> None:
    bench.write("a.py", "import time\n" + dag_source("a"))
    settings = bench.settings
    settings.parsing.reparse_interval = settings.parsing.refresh_interval = 0.05
    async with bench.running(settings=settings):
        await bench.heard.next()

        await bench.execute("DELETE FROM dag_version")
        await bench.execute("DELETE FROM dag")

        assert await bench.heard.next() == ["a"]
        assert (await bench.dags())["a"] == ("a.py", False, False, 1)


async def test_a_warning_of_a_pool_goes_when_the_file_is_parsed_again_and_the_pool_is_there(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Section 18.1 of the semantics reference."""
    stored, remember = asyncio.Event(), Outcomes.remember
    monkeypatch.setattr(Outcomes, "remember", lambda *told: (remember(*told), stored.set()))
    bench.write("a.py", dag_source("a", extra=", default_args={'pool': 'etl'}"))
    settings = bench.settings
    settings.parsing.reparse_interval = 0.05

    async def warnings() -> list[str]:
        stored.clear()
        return list(await bench.db.fetchval("SELECT warnings FROM dag_file"))

    async with bench.running(settings=settings), asyncio.timeout(PATIENCE):
        assert "'etl'" in str(await warnings())

        await bench.execute("INSERT INTO pool (name, slots) VALUES ('etl', 1)")

        while await warnings():
            await stored.wait()


async def test_trouble_with_the_database_delays_and_does_not_end_parsing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "RETRY", (0.01, 0.01))
    failed = asyncio.Event()
    monkeypatch.setattr(storing.log, "warning", lambda *_: failed.set())
    bench.write("a.py", dag_source("a"))
    await bench.execute("ALTER TABLE dag_file RENAME TO elsewhere")
    parser = Parser(bench.settings, bench.db, clock=bench.clock, on_change=bench.heard)
    task = asyncio.create_task(parser.run())
    async with asyncio.timeout(PATIENCE):
        await failed.wait()

    await bench.execute("ALTER TABLE elsewhere RENAME TO dag_file")

    assert await bench.heard.next() == ["a"]
    parser.stop()
    await task


async def test_no_class_of_errors_ends_parsing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a connection that confuses the driver."""
    monkeypatch.setattr(storing, "RETRY", (0.0, 0.0))
    errors: list[Exception] = [kind("said") for kind in OF_THE_DATABASE]
    errors += [asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")]
    store = storing.store_results

    async def fails_first(*args: Any, **options: Any) -> StoredFiles:
        if errors:
            raise errors.pop()
        return await store(*args, **options)

    monkeypatch.setattr(storing, "store_results", fails_first)
    bench.write("a.py", dag_source("a"))
    parser = Parser(bench.settings, bench.db, clock=bench.clock, on_change=bench.heard)
    task = asyncio.create_task(parser.run())

    assert await bench.heard.next() == ["a"]
    assert not errors
    parser.stop()
    await task


@pytest.mark.parametrize("state", ["22001", "23514", "54000"])
async def test_a_file_that_the_database_refuses_does_not_hold_up_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    bench.write("a.py", dag_source("a"))
    bench.write("b.py", dag_source("b"))
    # as PostgreSQL says it about a value that a column cannot hold, a check, and a limit
    await bench.execute(
        "CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN "
        "IF NEW.dag_id = 'b' "
        f"THEN RAISE EXCEPTION 'not this one' USING ERRCODE = '{state}'; END IF; RETURN NEW; END $$ "
        "LANGUAGE plpgsql; CREATE TRIGGER refuse BEFORE INSERT ON dag_version FOR EACH ROW EXECUTE FUNCTION refuse()"
    )

    async with bench.running():
        errors = await bench.errors()

    assert errors["a.py"] is None
    assert errors["b.py"] == "Unstorable: PostgreSQL cannot store the DAGs of this file: not this one"
    assert list(await bench.dags()) == ["a"]


async def test_stopping_gives_up_a_file_that_takes_long(bench: Bench) -> None:
    os.mkfifo(bench.folder / "fifo")
    bench.write(
        "slow.py", f"# aiosched dag\nopen({str(bench.folder / 'fifo')!r}, 'w').write('here')\nwhile True: pass\n"
    )
    parser = Parser(settings_for(bench.folder, import_timeout=60, file_timeout=60), bench.db, clock=bench.clock)
    task = asyncio.create_task(parser.run())
    assert await asyncio.to_thread((bench.folder / "fifo").read_text) == "here"

    parser.stop()
    async with asyncio.timeout(PATIENCE):
        await task
        await parser.first_pass


async def test_a_cancelled_parser_ends_its_processes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "ParsingPool", ParsingPool)  # which keeps none
    bench.write("a.py", dag_source("a"))
    parser = Parser(bench.settings, bench.db, clock=bench.clock)
    task = asyncio.create_task(parser.run())
    await parser.first_pass

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert parser._pool.pids == ()


@pytest.mark.slow
async def test_a_folder_is_read_when_the_files_of_others_are_read_too(bench: Bench) -> None:
    bench.write("one.py", dag_source("a"))
    bench.write("broken.py", "from aiosched import DAG\nraise ValueError('no')")
    theirs = "has not been read by the scheduler that it belongs to"

    async with bench.running(owns=lambda _: False) as mine:
        assert await bench.unread(mine) == f"the file broken.py {theirs}"
        async with bench.running() as other:
            assert await bench.unread(other) is None
            assert await bench.unread(mine) is None

    bench.clock.advance(60)
    bench.write("one.py", dag_source("a", "b"))
    async with bench.running(owns=lambda _: False) as mine:
        assert await bench.unread(mine) == f"the file one.py {theirs}"
        async with bench.running():
            assert await bench.unread(mine) is None


async def test_a_folder_is_not_read_while_partitions_move(bench: Bench) -> None:
    bench.write("one.py", dag_source("a"))
    owned = False

    async with bench.running(owns=lambda _: owned) as parser:
        owned = True
        assert await bench.unread(parser) == "the DAGs folder is being read"

        parser.refresh()
        await bench.until(parser, None)

    assert list(await bench.dags()) == ["a"]


async def test_the_dags_of_files_that_need_not_be_read_again_are_counted(bench: Bench) -> None:
    bench.write("one.py", dag_source("a", "b"))
    bench.write("two.py", dag_source("c"))
    bench.write("broken.py", "from aiosched import DAG\nraise ValueError('no')")
    owned = True

    def counts(parser: Parser) -> tuple[int, int, int]:
        return parser.stats.files, parser.stats.dags, parser.stats.errors

    async with bench.running(owns=lambda _: owned) as parser:
        owned = False  # the database is away, say
        parser.refresh()
        await until(lambda: counts(parser) == (0, 0, 0))
        owned = True
        parser.refresh()
        await until(lambda: counts(parser) == (3, 3, 1))

        bench.write("one.py", dag_source("a"))
        parser.refresh()
        await until(lambda: counts(parser) == (3, 2, 1))
        (bench.folder / "two.py").unlink()
        parser.refresh()
        await until(lambda: counts(parser) == (2, 1, 1))
