"""Calls of services by tasks in worker processes, over their sockets."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from aiosched.core.creation.upcoming import NO_RUN
from aiosched.core.values.allowance import (
    LARGEST,
    MOST_REFS,
    MOST_WAITING,
    MOST_WAITING_BYTES,
    Allowance,
    at_once,
)
from aiosched.core.values.messages import Attempt, TaskServices
from aiosched.core.values.service_errors import kind_of
from aiosched.core.values.unwritten import UnwrittenLog
from aiosched.errors import AttemptStopped, Refused
from aiosched.executors.local.worker_link import WorkerLink
from aiosched.executors.worker.protocol import ServiceCall, ServiceResult, Withdraw, XComCall

log: logging.Logger = logging.getLogger(__name__)


_WAIT: Final = "calls wait"


@dataclass(slots=True)
class _Asking:
    """The calls of one worker."""

    allowance: Allowance
    under_way: dict[int, asyncio.Task[None]] = field(default_factory=dict)  # by the number of the call
    waiting: deque[XComCall | ServiceCall] = field(default_factory=deque)
    size: int = 0  # bytes of what waits
    timer: asyncio.TimerHandle | None = None
    refused: int = 0
    is_slowed: bool = False  # which has been said


class ServiceCalls:
    """Makes the calls, and answers each as soon as possible, in any order.

    A call ends with its attempt: changes that it requests are cancelled if the attempt has ended. One worker has a
    bounded part of what is answered at a time (allowance.py); the other calls wait, at last in its own socket.
    """

    def __init__(self, services: TaskServices) -> None:
        self._services = services
        self._asking: dict[WorkerLink, _Asking] = {}
        self._telling = set[asyncio.Task[None]]()

    def give(self, link: WorkerLink, call: XComCall | ServiceCall | Withdraw) -> None:
        """Answer a call, or have it wait for its turn."""
        asking = self._asking.get(link)
        if asking is None:
            if link.lost.done():  # the rest of what a worker has written that is gone
                return
            asking = self._asking[link] = _Asking(Allowance(asyncio.get_running_loop().time()))
        if isinstance(call, Withdraw):
            self._withdraw(link, asking, call.number)
        elif (problem := _problem(call)) is not None:
            _say(link, call, problem)
        else:
            asking.waiting.append(call)
            asking.size += _size(call)
            if asking.timer is None:
                self._begin(link, asking)

    def _begin(self, link: WorkerLink, asking: _Asking) -> None:
        """Begin with as many of a worker's calls as it may make now."""
        loop = asyncio.get_running_loop()
        attempts = len(link.attempts) + len(link.triggers) if link.is_async else 1
        asking.timer = None
        while asking.waiting and len(asking.under_way) < at_once(attempts):
            pause = asking.allowance.take(loop.time(), attempts)
            if pause:
                asking.timer = loop.call_later(pause, self._begin, link, asking)
                break
            call = asking.waiting.popleft()
            asking.size -= _size(call)
            self._ask(link, asking, call)
        is_full = len(asking.waiting) >= MOST_WAITING or asking.size >= MOST_WAITING_BYTES
        link.hold(_WAIT, on=is_full)
        if is_full and not asking.is_slowed:
            asking.is_slowed = True
            log.warning(
                "the worker process %s, which runs %s, calls services faster than they answer: %d calls wait, and it "
                "is read no further until they are fewer", link.pid, _runs(link), len(asking.waiting),
            )  # fmt: skip

    def _ask(self, link: WorkerLink, asking: _Asking, call: XComCall | ServiceCall) -> None:
        if not (link.runs_for(call.run) or (call.run == NO_RUN and isinstance(call, ServiceCall))):
            self._refuse(link, asking, call)
            return
        work = self._answer(link, call) if isinstance(call, XComCall) else self._reply(link, call)
        task = asyncio.create_task(work)
        if call.number in asking.under_way:  # two of one number: only a hostile worker sends them
            asking.under_way.pop(call.number).cancel()
        asking.under_way[call.number] = task
        task.add_done_callback(lambda task: self._ended(link, asking, call.number, task))

    def _ended(self, link: WorkerLink, asking: _Asking, number: int, task: asyncio.Task[None]) -> None:
        if asking.under_way.get(number) is task:
            del asking.under_way[number]
        if asking.timer is None and self._asking.get(link) is asking:
            self._begin(link, asking)

    def _withdraw(self, link: WorkerLink, asking: _Asking, number: int) -> None:
        if (task := asking.under_way.get(number)) is not None:
            task.cancel()
            return
        for call in asking.waiting:
            if call.number == number:
                asking.waiting.remove(call)
                asking.size -= _size(call)
                return

    def tell(self, unwritten: UnwrittenLog, attempt: Attempt) -> None:
        """Say that the last lines of an attempt are lost, whose worker process is gone."""
        task = asyncio.create_task(self._tell(unwritten, attempt))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    def gone(self, link: WorkerLink) -> None:
        """The worker has ended, with the attempts that asked."""
        if (asking := self._asking.pop(link, None)) is not None:
            asking.waiting.clear()
            if asking.timer is not None:
                asking.timer.cancel()
            for task in asking.under_way.values():
                task.cancel()

    async def close(self) -> None:
        """Cancel all calls."""
        under_way = [*self._telling]
        for link, asking in list(self._asking.items()):
            under_way += asking.under_way.values()
            self.gone(link)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    def _refuse(self, link: WorkerLink, asking: _Asking, call: XComCall | ServiceCall) -> None:
        asking.refused += 1
        if str(asking.refused).strip("0") == "1":  # the first, the tenth, …: it may ask as often as it likes
            log.warning(
                "refused: the worker process %s, which runs %s, asked in the name of a run of which it runs nothing "
                "(%d); %d such calls so far", link.pid, _runs(link), call.run, asking.refused,
            )  # fmt: skip
        _say(link, call, "A task can ask in the name of its own run only, and while it runs.")

    async def _tell(self, unwritten: UnwrittenLog, attempt: Attempt) -> None:
        told = unwritten.told(attempt, socket.gethostname())
        try:
            await self._services.call(attempt.key.run, "unwritten_log", told)
        except Exception as error:
            log.warning("the log of %s could not be written (%s), and that not stored: %s", attempt.key, told, error)

    async def _answer(self, link: WorkerLink, call: XComCall) -> None:
        try:
            pairs = await self._services.get_xcoms(call.run, call.refs)
        except AttemptStopped as stopped:  # no answer: the asking attempt is about to be ended with the lease
            log.info("a call of a running task is not answered: it %s", stopped)
        except Exception as error:  # the task fails with this error and may be retried
            log.warning("the XComs of a running task cannot be read: %s", error)
            link.answer(call.number, [], f"XComs cannot be read: {type(error).__name__}: {error}")
        else:
            link.answer(call.number, pairs)

    async def _reply(self, link: WorkerLink, call: ServiceCall) -> None:
        try:
            args = call.args if call.run != NO_RUN else _of_a_file(link, call)
            reply = ServiceResult(call.number, await self._services.call(call.run, call.name, args))
        except AttemptStopped as stopped:
            log.info("a call of a running task is not answered: it %s", stopped)
            return
        except Exception as error:  # the task fails with this error and may be retried
            kind = kind_of(error)
            text = str(error) if kind else f"the service {call.name!r} failed: {type(error).__name__}: {error}"
            reply = ServiceResult(call.number, "", text, kind)
        link.reply(reply)


def _say(link: WorkerLink, call: XComCall | ServiceCall, refusal: str) -> None:
    if isinstance(call, XComCall):
        link.answer(call.number, [], refusal)
    else:
        link.reply(ServiceResult(call.number, "", refusal, kind_of(Refused(refusal))))


def _runs(link: WorkerLink) -> str:
    keys = [*link.attempts, *(attempt.key for attempt in link.triggers.values())]
    return ", ".join(map(str, keys[:3])) or "nothing"


def _size(call: XComCall | ServiceCall) -> int:
    return 100 + (len(call.args) if isinstance(call, ServiceCall) else 100 * len(call.refs))


def _problem(call: XComCall | ServiceCall) -> str | None:
    """Why a call is not made at all; None: it may be."""
    if isinstance(call, XComCall) and len(call.refs) > MOST_REFS:
        return f"One call names at most {MOST_REFS:,} XComs, not {len(call.refs):,}: ask for fewer at a time."
    if isinstance(call, ServiceCall) and len(call.args) > LARGEST:
        return (
            f"What {call.name[:80]!r} is asked has {len(call.args):,} characters, the limit is {LARGEST:,}: "
            "store the data elsewhere, and send a reference."
        )
    return None


def _of_a_file(link: WorkerLink, call: ServiceCall) -> str:
    """The call of a file that is imported before there is a run: we know which file it is, and it may only read."""
    importing = next(iter(link.warming.values()), None)
    args = json.loads(call.args)
    if importing is None or (call.name != "bundle" and "get" not in args):
        raise Refused(f"{call.name!r} can be called by a task only, not while a file is imported for a run to come.")
    if call.name == "bundle":
        return call.args
    return json.dumps({"get": args["get"], "file": importing.file, "bundle": importing.bundle or ""})
