"""Commands that messages suggest can be pasted: names of any look are quoted, and are taken for no options.

Source: aiosched/core/values/commands.py.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from aiosched.cli.app import Root
from aiosched.core.graph.spec import TaskSpec
from aiosched.core.values.commands import command_line
from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.records import add_dag, add_run, add_task, own

ROOT: Final = Path(__file__).parents[2] / "aiosched"
# What f-strings may put into a command themselves: none of these can begin with a dash, or has to be quoted.
HARMLESS: Final = {
    "DEFAULT_POOL", "LOCAL", "WORD", "backup", "found.package", "number", "package", "row.id", "row.last",
    "run.backfill_id", "' --dsn …' if dsn else ''",
}  # fmt: skip
_COMMAND: Final = re.compile(rf"aiosched (?:{'|'.join(Root.entries)})\b(?: [^\s`.,;)]+)*")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (command_line("dags unpause", "etl"), "dags unpause etl"),
        (command_line("why", "etl", "a b", options=("--map-index", 2)), "why etl 'a b' --map-index 2"),
        (command_line("why", "-etl", "r", options=("--map-index", 2)), "why --map-index 2 -- -etl r"),
        (command_line("why", "etl", "--wide"), "why -- etl --wide"),
        (command_line("pools set", "api", -1), "pools set -- api -1"),
        (command_line("variables set", "region", "-", options=("--secret",)), "variables set region - --secret"),
        (command_line("tasks clear", "etl", options=("--run", "-r")), "tasks clear etl --run -r"),
    ],
)
def test_names_that_begin_with_a_dash_stand_behind_the_options(line: str, words: str) -> None:
    assert line == f"aiosched {words}"


def written_by_hand() -> Iterator[tuple[str, str]]:
    """What f-strings put into commands: the file, and the expression."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                values = [ast.unparse(part.value) for part in node.values if isinstance(part, ast.FormattedValue)]
                numbers = map("\0{}\0".format, range(len(values)))
                text = "".join(
                    next(numbers) if isinstance(part, ast.FormattedValue) else str(ast.literal_eval(part))
                    for part in node.values
                )
                for command in _COMMAND.findall(text):
                    for number in re.findall("\0(\\d+)\0", command):
                        yield str(path.relative_to(ROOT)), values[int(number)]


def test_no_message_writes_the_name_of_something_into_a_command_itself() -> None:
    found = {(file, value) for file, value in written_by_hand() if value not in HARMLESS}

    assert found == set(), "use command_line"


def test_commands_about_ids_that_begin_with_a_dash_do_what_they_say(on_db: Cli) -> None:
    async def make(db: Database) -> None:
        version = await add_dag(
            db, "-etl", is_paused=True, tasks=(TaskSpec(task_id="-load", operator="EmptyOperator"),)
        )
        run = await add_run(db, "-etl", version, "-r", state="failed")
        await add_task(db, run, 0, "failed")
        await own(db, "-etl")

    on_db.work(make)

    def do(line: str) -> str:
        _, *words = shlex.split(line)
        return on_db(*words).output

    assert "-load" in do(command_line("runs show", "-etl", "-r"))
    assert "-etl" in do(command_line("why", "-etl"))
    assert "wrote nothing" in do(command_line("tasks logs", "-etl", "-r", "-load"))
    assert "created pool -etl" in do(command_line("pools set", "-etl", -1, "-- a purpose"))
    assert '"slots": -1' in on_db("pools", "get", "-o", "json", "--", "-etl").stdout
    assert "aiosched runs clear --only-failed -- -etl -r" in on_db("why", "-o", "json", "--", "-etl", "-r").stdout


def test_what_is_no_option_of_pools_is_said(on_db: Cli) -> None:
    said = on_db("pools", "set", "api", "4", "--rat", "5/min", code=2).stderr

    assert "No such option: --rat" in said
    assert "--rate" in said
