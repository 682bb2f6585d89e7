"""Options and arguments that several commands share, with one spelling and one help text."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from aiosched.cli.base.completion import complete_dag, complete_run, complete_task
from aiosched.cli.base.output import Format
from aiosched.core.graph.given_texts import TypedConf, read_text
from aiosched.core.timetables import days
from aiosched.core.timetables.days import DayOrInstant
from aiosched.core.values.json_bounds import find_problem
from aiosched.errors import AioschedError

MOST_INT: Final = 2**31 - 1  # of PostgreSQL's integer
MOST_BIGINT: Final = 2**63 - 1

Output = Annotated[
    Format | None,
    typer.Option("--output", "-o", help="Default: table on a terminal, plain when piped.", show_default=False),
]
Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn", metavar="DSN", help="PostgreSQL address; without one, the embedded database.", show_default=False
    ),
]
DagsFolder = Annotated[
    Path | None, typer.Option("--dags", help="Folder with the DAG files.", show_default=False, metavar="FOLDER")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, metavar="N", help="Maximum number.")]
DagId = Annotated[
    str, typer.Argument(metavar="DAG", help="The DAG's id.", show_default=False, autocompletion=complete_dag)
]
RunRef = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run id (or its beginning), a logical date, latest, latest-failed or latest-backfill.",
        show_default=False,
        autocompletion=complete_run,
    ),
]
TaskId = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="The task's id; load[3] for one of a mapped task.",
        show_default=False,
        autocompletion=complete_task,
    ),
]
MapIndex = Annotated[
    int | None,
    typer.Option(
        "--map-index",
        min=-1,
        max=MOST_INT,
        metavar="N",
        help="The instance of a mapped task.",
        show_default=False,
    ),
]
Param = Annotated[
    list[str] | None,
    typer.Option("--param", "-p", metavar="KEY=VALUE", help="One value of the run's conf, as JSON or text."),
]
Conf = Annotated[
    str | None, typer.Option("--conf", "-c", metavar="JSON", help="The run's conf, a JSON object.", show_default=False)
]

PartitionKey = Annotated[
    str | None,
    typer.Option(
        "--partition-key", metavar="KEY", help="The partition of assets that it is about.", show_default=False
    ),
]

Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="The reason, kept in the audit log.", show_default=False)
]


class UsageProblem(AioschedError):
    """An invalid command line; exit code 2."""

    exit_code = 2


def read_conf(conf: str | None, params: Sequence[str] | None) -> TypedConf:
    """The run's conf: `--conf` overridden by each `-p key=value`. Raises UsageProblem.

    What a value means depends on its param, as far as there is one: see `fitted`.
    """
    document = read_json(conf, "--conf") if conf else {}
    if not isinstance(document, dict):
        raise UsageProblem(f"--conf must be a JSON object such as '{{\"day\": 1}}', not {conf}.")
    texts = _texts_of(params or (), "-p")
    found = TypedConf(document | {key: read_text(text) for key, text in texts.items()}, texts)
    if (problem := find_problem(found, "conf")) is not None:
        raise UsageProblem(f"{problem}.")
    return found


def read_pairs(pairs: Sequence[str], option: str) -> dict[str, Any]:
    """`key=value` pairs; a value is parsed as JSON if it is valid JSON, else it is text. Raises UsageProblem."""
    return {key: read_text(text) for key, text in _texts_of(pairs, option).items()}


def _texts_of(pairs: Sequence[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageProblem(f"{option} {pair}: write it as key=value.")
        found[key] = value
    return found


def read_json(text: str, option: str) -> Any:
    """The value of `text`; raises UsageProblem naming the option."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # also of numbers and objects that are too long and too deep
        raise UsageProblem(f"{option} is not valid JSON: {error}.") from None


def read_day_or_instant(text: str, option: str) -> DayOrInstant:
    """A whole day (a date without a time), or an aware instant in UTC; UTC is assumed without a zone.

    Raises UsageProblem.
    """
    try:
        return days.read_day_or_instant(text)
    except ValueError:
        raise UsageProblem(f"{option} {text}: write a date as 2026-01-31 or 2026-01-31T06:00:00+01:00.") from None
    except OverflowError:
        raise UsageProblem(out_of_calendar(option, text)) from None


def out_of_calendar(option: str, text: str) -> str:
    """What is wrong with an instant that cannot be stored."""
    return f"{option} {text} is not in the years 1 to 9999 in UTC: give another instant."


def read_instant(text: str, option: str) -> datetime:
    """An aware instant in UTC, of a day its beginning there; UTC is assumed without a zone. Raises UsageProblem."""
    return days.start_of(read_day_or_instant(text, option), "UTC")


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation before something that cannot be undone; without a terminal, `--yes` is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageProblem(f"{question} Add --yes: there is no terminal to confirm it on.")
    typer.confirm(question, abort=True, err=True)
