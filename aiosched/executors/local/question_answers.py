"""Answers requests of tasks in worker processes to their scheduler, over their sockets."""

from __future__ import annotations

import asyncio
import json
import logging

from aiosched.core.creation.upcoming import NO_RUN
from aiosched.core.values.messages import TaskServices
from aiosched.core.values.service_errors import kind_of
from aiosched.errors import AttemptStopped, Refused
from aiosched.executors.local.worker_link import WorkerLink
from aiosched.executors.worker.protocol import Ask, Call, Reply, Withdraw

log = logging.getLogger(__name__)


class QuestionAnswers:
    """Calls the services, and answers each question as soon as possible, in any order.

    A question ends with its attempt: changes that it requests are cancelled if the attempt has ended.
    """

    def __init__(self, services: TaskServices) -> None:
        self._services = services
        self._under_way: dict[tuple[WorkerLink, int], asyncio.Task[None]] = {}

    def give(self, link: WorkerLink, question: Ask | Call | Withdraw) -> None:
        """Answer a question."""
        place = (link, question.number)
        if isinstance(question, Withdraw):
            if (asking := self._under_way.get(place)) is not None:
                asking.cancel()
            return
        work = self._answer(link, question) if isinstance(question, Ask) else self._reply(link, question)
        task = self._under_way[place] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._under_way.pop(place, None))

    def gone(self, link: WorkerLink) -> None:
        """The worker has ended, with the attempts that asked."""
        for place, task in self._under_way.items():
            if place[0] is link:
                task.cancel()

    async def close(self) -> None:
        """Cancel all questions."""
        under_way = list(self._under_way.values())
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    async def _answer(self, link: WorkerLink, question: Ask) -> None:
        try:
            if question.previous:
                pairs = [await self._services.get_previous_xcoms(question.run, question.refs[0])]
            else:
                pairs = await self._services.get_xcoms(question.run, question.refs)
        except AttemptStopped as stopped:  # no answer: the asking attempt is about to be ended with the lease
            log.info("a question of a running task is not answered: it %s", stopped)
        except Exception as error:  # the task fails with this error and may be retried
            log.warning("the XComs of a running task cannot be read: %s", error)
            link.answer(question.number, [], f"XComs cannot be read: {type(error).__name__}: {error}")
        else:
            link.answer(question.number, pairs)

    async def _reply(self, link: WorkerLink, call: Call) -> None:
        try:
            args = call.args if call.run != NO_RUN else _of_a_file(link, call)
            reply = Reply(call.number, await self._services.call(call.run, call.name, args))
        except AttemptStopped as stopped:
            log.info("a question of a running task is not answered: it %s", stopped)
            return
        except Exception as error:  # the task fails with this error and may be retried
            kind = kind_of(error)
            text = str(error) if kind else f"the service {call.name!r} failed: {type(error).__name__}: {error}"
            reply = Reply(call.number, "", text, kind)
        link.reply(reply)


def _of_a_file(link: WorkerLink, call: Call) -> str:
    """The question of a file that is imported before there is a run: we know which file it is, and it may only read."""
    importing = next(iter(link.warming.values()), None)
    args = json.loads(call.args)
    if importing is None or (call.name != "bundle" and "get" not in args):
        raise Refused(f"{call.name!r} can be called by a task only, not while a file is imported for a run to come.")
    if call.name == "bundle":
        return call.args
    return json.dumps({"get": args["get"], "file": importing.file, "bundle": importing.bundle or ""})
