"""Options of commands that are made from requests: a field of the struct is an option, with its help and limits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from aiosched.cli.base.options import DagId, Dsn, UsageProblem
from aiosched.cli.base.request_options import with_options
from aiosched.core.creation.backfills import Rerun
from aiosched.core.requests.requests import BackfillCreate, Clear, Help


class Later(Clear, frozen=True, kw_only=True):
    """Clear, with fields that were added."""

    gently: Annotated[bool, Help("Do it gently.", short="-g")] = False
    at_most: Annotated[int | None, Help("Not more.", ge=1, le=9)] = None
    not_before: Annotated[datetime | None, Help("Not before.")] = None


def application(asked: list[object]) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @with_options(Later, without=("run_ids",))
    def clear(dag_id: DagId, request: Callable[..., Later], dsn: Dsn = None) -> None:
        asked.append(request(run_ids=["r"]))

    @app.command()
    @with_options(BackfillCreate)
    def create(dag_id: DagId, request: Callable[..., BackfillCreate], dsn: Dsn = None) -> None:
        asked.append(request())

    return app


def asked_by(*argv: str) -> object:
    asked: list[object] = []
    result = CliRunner().invoke(application(asked), argv, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return asked[0]


def test_a_field_that_is_added_is_an_option_at_once() -> None:
    asked = asked_by("clear", "sales", "-g", "--at-most", "3", "--not-before", "2026-01-01", "--task-id", "a")

    assert asked == Later(("r",), gently=True, at_most=3, not_before=datetime(2026, 1, 1, tzinfo=UTC), task_ids=("a",))


def test_days_words_and_params_are_read() -> None:
    days = ("--from", "2026-01-01", "--to", "2026-01-31")

    given = asked_by("create", "sales", *days, "--rerun", "all", "-p", "n=1", "--reason", "late")

    assert given == BackfillCreate(
        date(2026, 1, 1), date(2026, 1, 31), rerun=Rerun.ALL, conf={"n": 1}, reason="late", max_active_runs=10
    )


def test_a_flag_that_is_on_can_be_switched_off() -> None:
    assert asked_by("clear", "sales", "--no-dependents") == Later(run_ids=("r",), dependents=False)


def test_help_has_the_words_of_the_struct() -> None:
    shown = CliRunner().invoke(application([]), ["clear", "--help"]).output

    assert "Do it gently." in shown
    assert shown.index("--at-most") < shown.index("--dry-run") < shown.index("--reason") < shown.index("--dsn")
    assert "--run-ids" not in shown


def test_limits_and_days_are_checked() -> None:
    assert CliRunner().invoke(application([]), ["clear", "sales", "--at-most", "10"]).exit_code == 2
    with pytest.raises(UsageProblem, match="--from soon: write a date"):
        asked_by("create", "sales", "--from", "soon", "--to", "2026-01-31")
