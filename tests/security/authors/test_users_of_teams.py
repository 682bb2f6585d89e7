"""A user of the machine that `executor.run_as_users` gives to a team is for the tasks of that team only.

Else an author names the user of another team, and reads the memory of its tasks.
"""

from __future__ import annotations

from unittest.mock import Mock

import msgspec
import pytest

from aiosched.config import ExecutorSettings, Settings
from aiosched.executors.local.forkservers import Forkservers
from aiosched.executors.local.options import LocalOptions
from aiosched.executors.worker.lease_deadline import LeaseDeadline
from tests.executors.attempt_builders import attempt

GIVEN = ["sales:tsales", "research:tresearch", "both:sales:shared", "reports"]


def refusal(user: str, team: str | None) -> str | None:
    settings = Settings(executor=ExecutorSettings(run_as="dags", run_as_users=GIVEN))
    servers = Forkservers(LocalOptions.from_settings(settings), Mock(), Mock(spec=LeaseDeadline))
    plain = attempt("load")
    asked = msgspec.structs.replace(plain, run_as_user=user, run=msgspec.structs.replace(plain.run, team=team))
    name = servers.own_user(asked)
    return None if name is None else servers.refusal(asked, name)


@pytest.mark.parametrize(
    ("user", "team"),
    [
        ("tsales", "sales"), ("tresearch", "research"), ("shared", "both:sales"),
        ("reports", "sales"), ("reports", None), ("dags", "research"),
    ],
)  # fmt: skip
def test_a_task_may_name_the_users_of_its_team_and_of_all(user: str, team: str | None) -> None:
    assert refusal(user, team) is None


@pytest.mark.parametrize(
    ("user", "team", "entry"),
    [
        ("tsales", "research", "'research:tsales'"),
        ("tsales", None, "'tsales'"),
        ("tsales", "", "':tsales'"),
        ("tsales", "sales:x", "'sales:x:tsales'"),
        ("sales:tsales", "research", "'research:sales:tsales'"),
        ("sales:tsales", None, "'sales:tsales'"),
        (":reports", None, "':reports'"),
        ("shared", "sales", "'sales:shared'"),
        ("daemon", "sales", "'sales:daemon'"),
    ],
)
def test_a_task_names_users_of_its_team_only(user: str, team: str | None, entry: str) -> None:
    said = refusal(user, team)

    assert said is not None
    assert f"add {entry} to the setting executor.run_as_users" in said


def test_root_is_no_user_that_could_be_added() -> None:
    said = refusal("root", "sales")

    assert said is not None
    assert "no task runs as root" in said
    assert "add" not in said
