"""An event loop on the clock of a world: `asyncio.sleep(60)` ends when the world's clock has moved by a minute.

It runs nothing by itself. `turn` runs what is ready or due, in a thread of its own (a thread can run only one
loop, and the caller's runs another), while the caller waits. There are no sockets and no processes.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import Context
from datetime import datetime, timedelta
from typing import Final, TypeVar, TypeVarTuple

from aiosched.clock import Clock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_RESOLUTION: Final = 6e-7  # seconds: the world's clock is rounded to microseconds


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module docstring."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock, self._begin = clock, clock.now()
        self._soon: deque[asyncio.Handle] = deque()
        self._later: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = itertools.count()
        self._thread = ThreadPoolExecutor(1, "aiosched-world", asyncio._set_running_loop, (self,))

    @property
    def earliest(self) -> datetime | None:
        """When the next sleep ends."""
        later = self._later
        while later and later[0][2].cancelled():
            heapq.heappop(later)
        return self._begin + timedelta(seconds=later[0][0]) if later else None

    def turn(self, work: Callable[[], object] = lambda: None) -> None:
        """Call `work` on the loop, then run everything that is ready or due now, until nothing is.

        It may also be called on the loop: then `work` is called at once, and what follows runs in the current turn.
        """
        if asyncio._get_running_loop() is self:
            work()
            return
        self._thread.submit(self._turn, work).result()

    def close(self) -> None:
        """End the thread; pending sleeps never end."""
        self._thread.shutdown(wait=False)
        self._soon.clear()
        self._later.clear()
        super().close()

    def __del__(self) -> None:
        """No warning for a world that was not closed: the loop holds no system resources."""

    def _turn(self, work: Callable[[], object]) -> None:
        work()
        while True:
            now = self.time() + _RESOLUTION
            while self._later and self._later[0][0] < now:
                self._soon.append(heapq.heappop(self._later)[2])
            if not self._soon:
                return
            handle = self._soon.popleft()
            if not handle.cancelled():
                handle._run()

    # -- the interface for tasks and futures ------------------------------------------------

    def time(self) -> float:
        return (self._clock.now() - self._begin).total_seconds()

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._soon.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._later, (when, next(self._numbers), handle))
        return handle

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call it here and now: a thread would not follow the virtual clock."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: it is skipped when it is due."""
