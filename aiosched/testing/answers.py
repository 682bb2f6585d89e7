"""Answers of people to what tasks ask in a `World`: `Scheduler.answer_input` (scheduler/requests/answers.py).

A task that asks acts: it stores its question with the services of the world, and defers until a test answers, or until
its time to answer is over.
"""

from __future__ import annotations

from typing import Any

import msgspec

from aiosched.core.graph.human_input import InputRequest, check_answer
from aiosched.core.requests.options import options_of
from aiosched.core.requests.requests import AnswerInput
from aiosched.errors import NotFound, Refused
from aiosched.testing.people import People
from aiosched.testing.services import WorldServices
from aiosched.testing.view import index_of


class Respondents(People):
    """The part of `World` with the answers of people."""

    _services: WorldServices

    def question(self, dag_id: str, run_id: str, task_id: str, *, map_index: int = -1) -> InputRequest:
        """What a task asks, or has asked: subject, body, options, defaults, params. Raises NotFound."""
        row = self.task(dag_id, run_id, task_id, map_index)
        found = self._services.questions.get((row.run_id, row.task_index, row.map_index))
        if found is None:
            raise NotFound(f"{task_id} in run {run_id} of {dag_id!r} asks nothing (yet): let time pass in the world.")
        return found

    @options_of(AnswerInput, by="test")
    def answer_input(self, dag_id: str, request: AnswerInput) -> dict[str, Any]:
        """Answer what a task asks, which goes on then; returns {run_id, task_id, map_index, options, params}.

        Raises NotFound, and Refused if it does not wait for an answer, or for one that is wrong.
        """
        run_id, task_id = request.run_id, request.task_id
        dag = self._dag(dag_id)
        board, context = self._board(dag_id, run_id), self._context_of(dag_id)
        index = self._instance_meant(dag_id, run_id, task_id, request.map_index)
        question = self.question(dag_id, run_id, task_id, map_index=index)
        answer = check_answer(question, request.options, request.params, by=request.by)
        instance = board.find(index_of(board.graph.index, task_id), index)
        if instance is None or not board.deferrals.asks(instance):
            raise Refused(f"{task_id} in run {run_id} does not wait for an answer (any longer).")
        event = {"options": answer.options, "params": answer.params, "by": request.by, "at": self.now.isoformat()}
        with self._applying(dag.row.dag_id):
            board.answer(instance, msgspec.json.encode(event).decode(), self.now)
            context.apply_effects(board)
            context.cache.work.to_evaluate[board] = None
        place = {"run_id": run_id, "task_id": task_id, "map_index": index}
        return {**place, "options": list(answer.options), "params": answer.params}

    def _instance_meant(self, dag_id: str, run_id: str, task_id: str, map_index: int | None) -> int:
        run = self.run(dag_id, run_id)
        task = index_of(self._context_of(dag_id).cache.graph_of(self.rows.versions[run.version_id]).index, task_id)
        indexes = [row.map_index for row in self.rows.instances[run.key].values() if row.task_index == task]
        wanted = indexes if map_index is None else [index for index in indexes if index == map_index]
        if not wanted:
            raise NotFound(f"Run {run_id!r} of {dag_id!r} has no such instance of {task_id}.")
        if len(wanted) > 1:
            raise Refused(f"Task {task_id!r} is mapped: choose one of its {len(indexes)} instances with map_index.")
        return wanted[0]
