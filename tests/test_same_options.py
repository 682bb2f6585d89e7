"""Every way to send a request has the same options: they are compared with the fields of its struct.

A field that is new must be offered by the command line, the API and its client, `Scheduler` and `World`, or stand
here with the reason why not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from pydantic import BaseModel

from aiosched.cli.dags import assets as cli_assets
from aiosched.cli.dags import backfill as cli_backfill
from aiosched.cli.dags import clearing as cli_clearing
from aiosched.cli.dags import dags as cli_dags
from aiosched.cli.dags import inputs as cli_inputs
from aiosched.cli.dags import notes as cli_notes
from aiosched.cli.dags import runs as cli_runs
from aiosched.client import Client
from aiosched.core.requests import requests
from aiosched.core.requests.requests import Request
from aiosched.core.requests.stored import REQUESTS, verb_of
from aiosched.scheduler.actions import Actions
from aiosched.testing import World
from aiosched.testing.people import People
from aiosched.web.api import actions, assets, backfills, inputs
from aiosched.web.api.base.models import Because

# What a face calls a field, where it has another name or comes in two parts.
SPELLINGS = {
    "run": "run_id",
    "runs": "run_ids",
    "asset": "name",
    "number": "id",
    "text": "note",
    "task": "pattern",
    "max_active": "max_active_runs",
    "param": "conf",
    "option": "options",
    "from_date": "first",
    "to_date": "final",
}
# What is no field: of which DAG, where the database is, how the answer is shown, and what the audit log keeps.
NO_FIELDS = {"by", "self", "dag_id", "dsn", "output", "yes", "wait", "watch", "timeout", "reason"}
# Every request but a note takes a reason; a note says why by itself. A world has no audit log.
WITHOUT_REASON = {requests.SetNote}


class Faces(NamedTuple):
    """Who offers a request; None where a face does not, for the reason in the comment beside it."""

    request: type[Request]
    scheduler: Callable[..., Any] | None
    client: Callable[..., Any] | None
    body: type[BaseModel] | None
    world: Callable[..., Any] | None
    command: Callable[..., Any] | None
    without: frozenset[str] = frozenset()


# A mark names its run and its task.
OF_A_NAMED_TASK = frozenset({"first", "final", "pattern", "prevent_running", "newest_version"})
ALL = (
    Faces(
        requests.Trigger, Actions.trigger, Client.trigger, actions.NewRun, People.trigger, cli_dags.trigger,
        frozenset({"triggered_by"}),  # each face says who it is
    ),
    Faces(requests.Pause, Actions.pause, Client.pause, actions.DagChange, People.pause, cli_dags.pause),
    Faces(requests.Unpause, Actions.unpause, Client.unpause, actions.DagChange, People.unpause, cli_dags.unpause),
    Faces(requests.CancelRun, Actions.cancel, Client.cancel, Because, People.cancel, cli_runs.cancel),
    # The reason is in the query. A world has no rows to get rid of.
    Faces(requests.DeleteDag, Actions.delete, Client.delete, None, None, cli_dags.delete),
    Faces(requests.ReleaseDag, Actions.release, Client.release, Because, People.release, cli_dags.release),
    Faces(requests.EmitAsset, Actions.emit, Client.emit, assets.NewEvent, People.emit, cli_assets.emit),
    Faces(requests.Clear, Actions.clear, Client.clear, actions.Clearing, People.clear, cli_clearing.clear_tasks),
    Faces(
        requests.MarkTasks, Actions.mark_task, Client.mark_task, actions.Mark, People.mark_task,
        cli_clearing.mark_task, OF_A_NAMED_TASK,
    ),
    Faces(requests.MarkRun, Actions.mark_run, Client.mark_run, actions.RunMark, People.mark_run, cli_clearing.mark_run),
    # The map index is in the query. A world has no notes.
    Faces(requests.SetNote, Actions.set_note, Client.set_note, None, None, cli_notes.note_task),
    # Each face says who answers.
    Faces(
        requests.AnswerInput, Actions.answer_input, Client.answer, inputs.NewAnswer, World.answer_input,
        cli_inputs.answer, frozenset({"by"}),
    ),
    Faces(
        requests.BackfillCreate, Actions.backfill, Client.backfill, backfills.NewBackfill, People.backfill,
        cli_backfill.create,
    ),
    Faces(
        requests.BackfillPause, Actions.pause_backfill, Client.pause_backfill, Because, People.pause_backfill,
        cli_backfill.pause,
    ),
    Faces(
        requests.BackfillResume, Actions.resume_backfill, Client.resume_backfill, Because, People.resume_backfill,
        cli_backfill.resume,
    ),
    Faces(
        requests.BackfillCancel, Actions.cancel_backfill, Client.cancel_backfill, Because, People.cancel_backfill,
        cli_backfill.cancel,
    ),
    # For people at a page or at `tasks render`, which shows stored values first.
    Faces(requests.Render, None, None, None, None, None),
    # Only `aiosched migrate` sends it, with the rows that it has read.
    Faces(requests.ContinueSchedule, None, None, None, None, None),
)  # fmt: skip


def fields(faces: Faces) -> set[str]:
    return {field.name for field in msgspec.structs.fields(faces.request)} - faces.without


def options(face: Callable[..., Any], wanted: set[str]) -> set[str]:
    """The parameters of a face by the names of the struct; of several runs or tasks a face may name one."""
    spelled = {SPELLINGS.get(name, name) for name in inspect.signature(face).parameters}
    return {_several(name, wanted) for name in spelled - NO_FIELDS}


def _several(name: str, wanted: set[str]) -> str:
    if name == "conf" and "params" in wanted:  # the command line has the options of a trigger
        return "params"
    return f"{name}s" if name in ("run_id", "task_id") and f"{name}s" in wanted else name


def named(faces: Faces) -> str:
    return verb_of(faces.request)


def test_every_verb_is_compared() -> None:
    assert sorted(map(named, ALL)) == sorted(REQUESTS)


@pytest.mark.parametrize("face", ["scheduler", "client", "world", "command"])
@pytest.mark.parametrize("faces", ALL, ids=named)
def test_every_face_has_the_options_of_the_request(faces: Faces, face: str) -> None:
    function = getattr(faces, face)
    if function is None:
        return
    wanted = fields(faces)

    found = options(function, wanted)

    if face == "world":
        found -= {"paused"}  # the other half of `pause_backfill`, from before `resume_backfill`
    assert found == wanted
    if face != "world":
        assert ("reason" in inspect.signature(function).parameters) is (faces.request not in WITHOUT_REASON)


@pytest.mark.parametrize("faces", [faces for faces in ALL if faces.body is not None], ids=named)
def test_the_api_takes_what_its_client_sends(faces: Faces) -> None:
    assert faces.body is not None
    in_path = {"run_id", "task_id", "name", "id"}  # what the request is about
    of_many = {"run_ids", "task_ids"} if faces.request is requests.MarkTasks else set()
    body = {SPELLINGS.get(name, name) for name in faces.body.model_fields}

    assert body - {"reason", "dag_id", "is_paused"} == fields(faces) - in_path - of_many | (body & {"run_id"})
    assert "reason" in body
