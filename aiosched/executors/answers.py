"""What tasks in worker processes ask of their scheduler, answered over their sockets."""

from __future__ import annotations

import asyncio
import logging

from aiosched.core.messages import TaskServices
from aiosched.executors.protocol import Ask, Call, Reply, kind_of
from aiosched.executors.worker_link import WorkerLink

log = logging.getLogger(__name__)


class Answers:
    """Asks the services, and answers each question when there is an answer, whatever came before it."""

    def __init__(self, services: TaskServices) -> None:
        self._services = services
        self._under_way: set[asyncio.Task[None]] = set()

    def give(self, link: WorkerLink, question: Ask | Call) -> None:
        """See to a question."""
        work = self._answer(link, question) if isinstance(question, Ask) else self._reply(link, question)
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def close(self) -> None:
        """Nobody waits for answers any more."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _answer(self, link: WorkerLink, question: Ask) -> None:
        try:
            if question.previous:
                pairs = [await self._services.get_previous_xcoms(question.run, question.refs[0])]
            else:
                pairs = await self._services.get_xcoms(question.run, question.refs)
        except Exception as error:  # the task fails with it; whether it tries again is its own matter
            log.warning("the XComs of a running task cannot be read: %s", error)
            link.answer(question.number, [], f"XComs cannot be read: {type(error).__name__}: {error}")
        else:
            link.answer(question.number, pairs)

    async def _reply(self, link: WorkerLink, call: Call) -> None:
        try:
            reply = Reply(call.number, await self._services.call(call.run, call.name, call.args))
        except Exception as error:  # the task fails with it; whether it tries again is its own matter
            kind = kind_of(error)
            text = str(error) if kind else f"the service {call.name!r} failed: {type(error).__name__}: {error}"
            reply = Reply(call.number, "", text, kind)
        link.reply(reply)
