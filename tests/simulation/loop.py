"""An event loop with virtual time whose every choice comes from a seed.

Each callback belongs to a node (a simulated machine), by a context variable that tasks inherit.
Callbacks of one node run in order, as asyncio promises; which node goes next is drawn. A node can be
frozen (SIGSTOP: its callbacks wait) or dead (they never run). Nothing here waits in real time.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

WORLD = 0  # the node of the database server and of what happens to the fleet
NODE: contextvars.ContextVar[int] = contextvars.ContextVar("node", default=WORLD)


class NumberedTask(asyncio.Task[Any]):
    """A task that sets and task groups keep in the same place whenever it is played: its hash is no address."""

    number: int

    def __new__(cls, coroutine: Any, *, loop: VirtualLoop, **options: Any) -> NumberedTask:
        task = super().__new__(cls)
        task.number = loop.tasks = loop.tasks + 1
        return task

    def __hash__(self) -> int:
        return self.number


class NothingHappens(Exception):
    """No callback is ready and no timer is set: whoever waits, waits for ever."""


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module docstring."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.frozen: set[int] = set()
        self.dead: set[int] = set()
        self.turns = 0
        self.tasks = 0
        self.set_task_factory(lambda loop, work, **options: NumberedTask(work, loop=self, **options))
        self._now = 0.0
        self._queues: dict[int, deque[asyncio.Handle]] = {}
        self._grave: list[asyncio.Handle] = []  # what dead nodes will never do; kept until the end

    def time(self) -> float:
        return self._now

    def spawn(self, node: int, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work` as a task of `node`."""
        context = contextvars.copy_context()
        context.run(NODE.set, node)
        return NumberedTask(work, loop=self, context=context)

    def resurrect(self) -> None:
        """At the end: let the tasks of all nodes find their way out."""
        self.dead.clear()
        self.frozen.clear()
        grave, self._grave = self._grave, []
        for handle in grave:
            self._queue(handle)

    def _queue(self, handle: asyncio.Handle) -> None:
        node = handle._context.get(NODE, WORLD)  # type: ignore[attr-defined]
        if node in self.dead:
            self._grave.append(handle)
            return
        found = self._queues.get(node)
        if found is None:
            found = self._queues[node] = deque()
        found.append(handle)

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled
        while True:
            while ready:
                self._queue(ready.popleft())
            while scheduled and scheduled[0]._when <= self._now:  # type: ignore[attr-defined]
                handle = heapq.heappop(scheduled)
                handle._scheduled = False  # type: ignore[attr-defined]
                if not handle.cancelled():
                    self._queue(handle)
            open_ = [n for n, queue in self._queues.items() if queue and n not in self.frozen]
            if open_:
                break
            if self._stopping:  # type: ignore[attr-defined]
                return
            while scheduled and scheduled[0].cancelled():
                heapq.heappop(scheduled)._scheduled = False  # type: ignore[attr-defined]
            if not scheduled:
                raise NothingHappens
            self._now = max(self._now, scheduled[0]._when)  # type: ignore[attr-defined]
        node = open_[0] if len(open_) == 1 else self.random.choice(open_)
        queue = self._queues[node]
        if node in self.dead:
            self._grave.extend(queue)
            queue.clear()
            return
        turn = queue.popleft()
        self.turns += 1
        if not turn.cancelled():
            turn._run()

    def run_in_executor(self, executor: Any, work: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Do at once what other loops do in a thread; who waits for it goes on in a later turn."""
        future = self.create_future()
        try:
            result = work(*args)
        except Exception as error:
            self.call_soon(_finish, future, None, error)
        else:
            self.call_soon(_finish, future, result, None)
        return future

    def _process_events(self, event_list: Any) -> None:
        raise NotImplementedError("there are no sockets here")

    def _write_to_self(self) -> None:
        """Nobody sleeps in a selector."""


def _finish(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def run(loop: VirtualLoop, main: Coroutine[Any, Any, Any]) -> Any:
    """Run `main` to its end on `loop`."""
    previous = events._get_running_loop()
    assert previous is None, "a simulation needs a thread without a running loop"
    return loop.run_until_complete(main)
