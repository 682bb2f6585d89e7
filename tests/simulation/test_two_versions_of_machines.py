"""Machines of two versions in simulated fleets: who can read what, and what the checker objects to."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from aiosched.core.graph.spec import decode_spec
from aiosched.core.values.messages import AttemptKey, Outcome, Report
from aiosched.db.statements import reports
from aiosched.errors import NotFound, Refused
from tests.simulation.answers import Answer, answer
from tests.simulation.checker import violations
from tests.simulation.dialects import NOVELTY, UNKNOWN, Dialects
from tests.simulation.history import Commit, Event
from tests.simulation.simulate import simulate
from tests.simulation.spoiled import objections
from tests.simulation.workload import make_plan, rows_of

OLDER, NEWER = 1, 2  # nodes
_SEED = 3  # a fleet that is upgraded
_REPORT = Report(key=AttemptKey(1, 2, -1, 3), outcome=Outcome.SUCCESS, at=datetime(2026, 1, 1, tzinfo=UTC))
_COLUMNS = "id queued_by body partition run_id task_index map_index try_number outcome"


def _sent(dialects: Dialects, node: int) -> tuple[str, dict[str, Any]]:
    body = msgspec.json.encode(_REPORT).decode()
    args = ([7], [1], [2], [-1], [3], ["success"], [body], 99)
    *_, outcomes, bodies, incarnation = dialects.sent(node, reports.INSERT_REPORTS, args)
    assert incarnation == 99
    return outcomes[0], json.loads(bodies[0])


def _heard(dialects: Dialects, node: int, outcome: str, body: dict[str, Any]) -> str:
    said = answer(_COLUMNS, [[5, 99, json.dumps(body), 7, 1, 2, -1, 3, outcome]])
    found = dialects.heard(node, reports.READ_REPORTS, said)
    assert isinstance(found, Answer)
    text: str = found.rows[0]["body"]
    return text


def test_only_a_newer_machine_can_read_what_a_newer_one_has_to_say() -> None:
    seen = Counter[str]()
    dialects = Dialects(lambda node: node == NEWER, seen)

    assert _sent(dialects, OLDER)[0] == "success"
    outcome, body = _sent(dialects, NEWER)

    assert (outcome, body["outcome"]) == (UNKNOWN, UNKNOWN)
    assert body.keys() >= NOVELTY.keys()
    assert msgspec.json.decode(_heard(dialects, NEWER, outcome, body), type=Report) == _REPORT
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(_heard(dialects, OLDER, outcome, body), type=Report)
    assert seen["reports that a machine could not read"] == 1


def test_every_other_dag_is_of_a_newer_parser_and_means_the_same() -> None:
    plan = make_plan(_SEED)

    versions = rows_of(plan.specs)["dag_version"]

    assert [decode_spec(row["spec"]) for row in versions.values()] == list(plan.specs)
    assert [NOVELTY.keys() <= json.loads(row["spec"]).keys() for row in versions.values()][:2] == [False, True]


def test_a_fleet_ends_as_one_version() -> None:
    plan = replace(make_plan(_SEED), machines=3, blows=())
    history = simulate(_SEED, plan)

    assert plan.ends_as is not None
    assert history.seen["another version"]
    assert violations(plan, history) == []
    refused = [row for row in history.tables["request"].values() if "novelty" in row["args"]]
    assert [row["state"] for row in refused] == ["refused"]
    assert json.loads(refused[0]["result"])["exit_code"] in (Refused.exit_code, NotFound.exit_code)


def test_a_request_that_is_applied_without_its_unknown_option_is_found() -> None:
    def spoil(events: list[Event]) -> list[Event]:
        return [
            event._replace(
                changes=[
                    c._replace(new={**c.new, "state": "applied", "verb": "pause"})
                    if c.table == "request" and c.new is not None and c.new["state"] == "refused"
                    else c
                    for c in event.changes
                ]
            )
            if isinstance(event, Commit)
            else event
            for event in events
        ]

    found = objections(_SEED, spoil)

    assert any(one.startswith("[versions]") for one in found), found
