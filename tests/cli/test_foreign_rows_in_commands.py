"""Commands on rows that this aiosched cannot read in full: each shows them, and those beside them, as far as it can."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Cli
from tests.foreign_rows import ASSET, CHANGES, DAG, RUN, TASK, WORD, make_foreign, seed

COMMANDS = (
    ("assets", "list"), ("assets", "events", ASSET), ("assets", "checks", ASSET), ("backfill", "list"),
    ("backfill", "show", "1"), ("connections", "list"), ("dags", "list"), ("dags", "show", DAG), ("dags", "runs", DAG),
    ("dags", "errors"),
    ("dags", "next", DAG), ("pools", "list"), ("requests", "list"), ("requests", "show", "1"), ("runs", "list"),
    ("runs", "show", DAG, RUN), ("schedulers", "list"), ("tasks", "list", DAG), ("tasks", "show", DAG, RUN, TASK),
    ("tokens", "list"), ("users", "list"), ("variables", "list"), ("why", DAG), ("why", DAG, RUN),
    ("why", DAG, RUN, TASK), ("db", "info"),
)  # fmt: skip
EXPLAINS = ("tasks show", "why")  # a message says what is not there, or cannot be read


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize(
    ("change", "output"),
    [("unknown words", "json"), ("unknown words", "table"), ("no end", "plain"), ("the smallest numbers", "json")],
)
def test_every_command_shows_what_it_cannot_read_beside_all_else(on_db: Cli, change: str, output: str) -> None:
    on_db.work(seed)
    on_db.work(lambda db: make_foreign(db, CHANGES[change]))

    for command in COMMANDS:
        result = on_db(*command, "-o", output, code=None)  # raises what the command does not handle
        explained = " ".join(command).startswith(EXPLAINS) and result.stderr
        assert result.exit_code == 0 or explained, f"{command}: {result.output}"


def test_a_word_of_a_newer_version_is_shown_as_it_is(on_db: Cli) -> None:
    on_db.work(seed)
    on_db.work(lambda db: make_foreign(db, CHANGES["unknown words"]))

    shown = on_db.json("runs", "show", DAG, RUN)
    tasks = {line[0]: line[1] for line in on_db.lines("runs", "show", DAG, RUN) if len(line) > 3}

    assert (shown["state"], shown["run_type"], shown["counts"]) == (WORD, WORD, {WORD: 2})
    assert tasks[TASK] == WORD
    assert [request["state"] for request in on_db.json("requests", "list")] == [WORD]
    assert json.loads(on_db("runs", "list", "-o", "json").stdout)[1]["state"] == WORD
