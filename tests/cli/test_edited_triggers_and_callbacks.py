"""An edit of a trigger or of a callback runs as soon as it was noticed: with a real `serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.serving import serve, wait_for
from tests.cli.test_edited_code import versions
from tests.patience import eventually

HEAD = """
from pathlib import Path
from aiosched import DAG, BaseOperator, task

def say(word):
    with Path({out!r}).open("a") as said:
        print(word, file=said)

class Waits(BaseOperator):
    def __init__(self, kind, **options):
        super().__init__(**options)
        self.kind = kind

    def execute(self, context):
        self.defer(trigger=self.kind(), method_name="go_on")

    def go_on(self, context, event):
        say(event)
"""
TRIGGER = """
from aiosched.triggers import BaseTrigger, TriggerEvent

class Ready(BaseTrigger):
    async def run(self):
        yield TriggerEvent("{place} {word}")
"""
WAITS = """
with DAG("{place}", schedule=None):
    Waits(task_id="waits", kind=Ready)
"""
ENDS = """
with DAG("ends_well", schedule=None, on_success_callback=lambda context: say("dag success {word}")):
    @task(on_success_callback=lambda context: say("task success {word}"))
    def well():
        pass
    well()

with DAG("ends_badly", schedule=None, on_failure_callback=lambda context: say("dag failure {word}")):
    @task(on_failure_callback=lambda context: say("task failure {word}"))
    def badly():
        raise ValueError
    badly()
"""
DAGS = ("inside", "beside", "ends_well", "ends_badly")
SAID = {"inside", "beside", "dag success", "task success", "dag failure", "task failure"}


def put(folder: Path, word: str) -> None:
    """A trigger in the DAG file, one in a module beside it, and four callbacks; all say `word`."""
    folder.mkdir(exist_ok=True)
    head = HEAD.format(out=str(folder.parent / "said"))
    inside, beside = (TRIGGER.format(place=place, word=word) for place in ("inside", "beside"))
    save(folder / "ready.py", beside)
    save(folder / "beside.py", head + "from ready import Ready\n" + WAITS.format(place="beside"))
    save(folder / "inside.py", head + inside + WAITS.format(place="inside"))
    save(folder / "ends.py", head + ENDS.format(word=word))


def save(file: Path, text: str) -> None:
    """At once: whoever reads an empty file, before its text is written, finds that its DAG is gone."""
    part = file.with_suffix(".part")
    part.write_text(text)
    part.replace(file)


def runs(cli: Cli) -> list[tuple[Any, ...]]:
    """All runs with the numbers of their versions and their tries: what to look at if the wrong code has run."""

    async def read(db: Any) -> list[tuple[Any, ...]]:
        rows = await db.fetch(
            "SELECT r.dag_id, v.number, r.start_date, t.state, t.try_number, t.losses, t.start_date, t.end_date"
            " FROM dag_run r JOIN dag_version v ON v.id = r.version_id JOIN task_instance t ON t.run_id = r.id"
        )
        return [tuple(map(str, row.values())) for row in rows]

    return cli.work(read)


@pytest.mark.parametrize("executor", ["local", pytest.param("inline", marks=pytest.mark.slow)])
def test_edited_triggers_and_callbacks_run_in_the_next_run(tmp_path: Path, dsn: str, executor: str) -> None:
    cli, dags = Cli(dsn, tmp_path / "home"), tmp_path / "dags"
    put(dags, "one")

    with serve(tmp_path, dsn, "--executor", executor) as process:
        wait_for(process, "ready")
        eventually(lambda: len(versions(cli)) == len(DAGS))
        for word in ("one", "two"):
            before = {version["id"] for version in versions(cli)}
            if word == "two":
                put(dags, word)
                eventually(lambda: len([v for v in versions(cli) if v["id"] not in before]) == len(DAGS))  # noqa: B023
            (tmp_path / "said").write_text("")
            for dag_id in DAGS:
                cli("dags", "trigger", dag_id)
            eventually(lambda: len((tmp_path / "said").read_text().splitlines()) == len(SAID))

            said = (tmp_path / "said").read_text().splitlines()
            assert set(said) == {f"{place} {word}" for place in SAID}, f"{said} {runs(cli)}"


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["local", "inline"])
def test_a_trigger_beside_the_dag_file_is_the_one_of_now_when_nothing_else_changed(
    tmp_path: Path, dsn: str, executor: str
) -> None:
    cli, dags = Cli(dsn, tmp_path / "home"), tmp_path / "dags"
    put(dags, "one")
    for name in ("inside", "ends"):
        (dags / f"{name}.py").unlink()

    with serve(tmp_path, dsn, "--executor", executor) as process:
        wait_for(process, "ready")
        before = eventually(lambda: versions(cli))
        cli("dags", "trigger", "beside", "--wait")
        save(dags / "ready.py", TRIGGER.format(place="beside", word="two"))
        eventually(lambda: versions(cli)[-1] != before[-1])
        cli("dags", "trigger", "beside", "--wait")

    assert (tmp_path / "said").read_text().splitlines() == ["beside one", "beside two"]
