"""Statements on what tasks ask people. Makes no decisions.

A question waits while its task instance is deferred in the same try. The task itself stores its answer, when it goes
on; until then the answer is the event of its deferral.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple

import msgspec

from aiosched.core.graph.human_input import InputAnswer, InputRequest
from aiosched.core.graph.secret_params import hide_values
from aiosched.db.access.visibility import ScopedStatement, Seen
from aiosched.db.server.connection import DatabaseConnection, Queryable
from aiosched.db.server.engine import Database

InputState = Literal["waiting", "answered", "ended"]


class TaskPlace(NamedTuple):
    """A task instance: the key of its run, and its indexes."""

    run: int
    task_index: int
    map_index: int


# A run that was deleted meanwhile gets no rows any more. A task that asks again replaces its question. Index: primary.
ASK: Final = """
    INSERT INTO human_input (run_id, task_index, map_index, try_number, task_id, question, asked_at, expires_at)
    SELECT r.id, $2, $3, $4, $5, $6::json, now(), $7 FROM dag_run AS r WHERE r.id = $1
    ON CONFLICT (run_id, task_index, map_index) DO UPDATE
       SET try_number = excluded.try_number, task_id = excluded.task_id, question = excluded.question,
           asked_at = excluded.asked_at, expires_at = excluded.expires_at,
           answer = NULL, answered_by = NULL, answered_at = NULL
"""


async def ask(
    conn: Queryable,
    place: TaskPlace,
    request: InputRequest,
    *,
    try_number: int,
    task_id: str,
    expires_at: datetime | None,
) -> None:
    """Store what a task asks."""
    question = msgspec.json.encode(request).decode()
    await conn.execute(ASK, *place, try_number, task_id, question, expires_at)


# Who answered is what the request says that was applied, not what the task says. Indexes: the primary keys, and
# ix_request_dag_id_id, backwards.
CLOSE: Final = """
    UPDATE human_input AS h SET answer = $5::json, answered_at = $7, answered_by = CASE WHEN $6 THEN (
               SELECT q.args ->> 'by' FROM request AS q
                 JOIN dag_run AS r ON r.id = h.run_id AND r.dag_id = q.dag_id
                 JOIN version_task AS t ON t.version_id = r.version_id AND t.task_index = h.task_index
                WHERE q.verb = 'answer_input' AND q.state = 'applied' AND q.applied_at >= h.asked_at
                  AND q.result ->> 'run_id' = r.run_id AND q.result ->> 'task_id' = t.task_id
                  AND q.result ->> 'map_index' = h.map_index::text
                ORDER BY q.id DESC LIMIT 1) END
     WHERE h.run_id = $1 AND h.task_index = $2 AND h.map_index = $3 AND h.try_number = $4
"""


async def close(
    conn: Queryable, place: TaskPlace, answer: InputAnswer, *, try_number: int, by_somebody: bool, at: datetime
) -> None:
    """Store how a question was answered: by somebody, or by nobody, with its defaults."""
    await conn.execute(CLOSE, *place, try_number, msgspec.json.encode(answer).decode(), by_somebody, at)


# Index: primary key.
FIND: Final = "SELECT question FROM human_input WHERE run_id = $1 AND task_index = $2 AND map_index = $3"


async def find(conn: DatabaseConnection, place: TaskPlace) -> InputRequest | None:
    """What a task instance asked last."""
    question = await conn.fetchval(FIND, *place)
    return None if question is None else msgspec.json.decode(question, type=InputRequest)


@dataclass(frozen=True, slots=True)
class InputRow:
    """A question of a task instance and, if there is one, the answer as people see it: secret params are `***`.

    `expires_at`: when nobody can answer any more.
    """

    place: TaskPlace
    dag_id: str
    run_id: str
    task_id: str
    asked_at: datetime
    expires_at: datetime | None
    question: InputRequest
    state: InputState
    answer: InputAnswer | None
    answered_by: str | None
    answered_at: datetime | None

    @property
    def map_index(self) -> int:
        """-1 for a task that is not mapped."""
        return self.place.map_index

    @property
    def cursor(self) -> tuple[datetime, int, int, int]:
        """Where the next page begins."""
        return (self.asked_at, *self.place)


# Index: ix_human_input_asked_at, backwards; primary keys.
LIST: Final = ScopedStatement.of(
    """
    SELECT h.run_id, h.task_index, h.map_index, r.dag_id, r.run_id, h.task_id, h.asked_at, h.expires_at, h.question,
           CASE WHEN h.answer IS NOT NULL THEN 'answered' WHEN waits.yes THEN 'waiting' ELSE 'ended' END AS state,
           h.answer, h.answered_by, h.answered_at
      FROM human_input AS h
      JOIN dag_run AS r ON r.id = h.run_id
     CROSS JOIN LATERAL (
           SELECT EXISTS (SELECT FROM task_instance AS ti
                            JOIN deferred_trigger AS t USING (run_id, task_index, map_index)
                           WHERE ti.run_id = h.run_id AND ti.task_index = h.task_index AND ti.map_index = h.map_index
                             AND ti.state = 'deferred' AND ti.try_number = h.try_number
                             AND t.event IS NULL AND t.error IS NULL) AS yes) AS waits
     WHERE ($1::text IS NULL OR r.dag_id = $1) AND ($2::text IS NULL OR r.run_id = $2)
       AND ($3::text IS NULL OR h.task_id = $3) AND (NOT $4 OR h.answer IS NULL AND waits.yes)
       AND ($5::int IS NULL OR h.map_index = $5)
       AND ($6::timestamptz IS NULL OR (h.asked_at, h.run_id, h.task_index, h.map_index) < ($6, $7, $8, $9)) [seen]
     ORDER BY h.asked_at DESC, h.run_id DESC, h.task_index DESC, h.map_index DESC LIMIT $10
""",
    "r.dag_id = ANY (?::text[])",
)


# Of those that wait, which are few. Indexes: primary keys.
COUNT_WAITING: Final = ScopedStatement.of(
    """
    SELECT count(*)::int FROM (
        SELECT FROM deferred_trigger AS t
          JOIN human_input AS h USING (run_id, task_index, map_index)
          JOIN task_instance AS ti USING (run_id, task_index, map_index)
          JOIN dag_run AS r ON r.id = t.run_id
         WHERE t.event IS NULL AND t.error IS NULL AND h.answer IS NULL AND ti.state = 'deferred'
           AND ti.try_number = h.try_number [seen] LIMIT $1) AS found
""",
    "r.dag_id = ANY (?::text[])",
)


async def count_waiting(db: Database, *, limit: int, seen: Seen = None) -> int:
    """The number of questions that wait for an answer, at most `limit`."""
    ((number,),) = await COUNT_WAITING.fetch(db, limit, seen=seen)
    return int(number)


async def list_inputs(
    db: Database,
    *,
    dag_id: str | None = None,
    run_id: str | None = None,
    task_id: str | None = None,
    map_index: int | None = None,
    only_waiting: bool = False,
    after: tuple[datetime, int, int, int] | None = None,
    limit: int = 25,
    seen: Seen = None,
) -> list[InputRow]:
    """What tasks asked, the newest first; with `only_waiting` what nobody has answered yet. Only of `seen` DAGs.

    `after` is the cursor of the last one of the page before.
    """
    cursor = after or (None, None, None, None)
    rows = await LIST.fetch(db, dag_id, run_id, task_id, only_waiting, map_index, *cursor, limit, seen=seen)
    return [_row(*row) for row in rows]


def _row(
    run: int, task_index: int, map_index: int, dag_id: str, run_id: str, task_id: str, asked_at: datetime,
    expires_at: datetime | None, question: str, state: InputState, answer: str | None, by: str | None,
    at: datetime | None,
) -> InputRow:  # fmt: skip
    asked = msgspec.json.decode(question, type=InputRequest)
    given = None if answer is None else msgspec.json.decode(answer, type=InputAnswer)
    if given is not None:
        given = msgspec.structs.replace(given, params=hide_values(asked.params, given.params))
    return InputRow(
        place=TaskPlace(run, task_index, map_index),
        dag_id=dag_id,
        run_id=run_id,
        task_id=task_id,
        asked_at=asked_at,
        expires_at=expires_at,
        question=asked,
        state=state,
        answer=given,
        answered_by=by,
        answered_at=at,
    )
