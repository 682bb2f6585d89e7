"""The heartbeat: how late the event loop runs, what blocks it, and the figures that other processes show.

The lease thread calls `check` about once a second. Each check schedules a beat on the main loop. The beat
measures its own delay and takes a snapshot of the figures, which is stored in the scheduler's row with the
next renewal of its lease. A beat that does not run means that the loop is blocked: the line that the main
thread is executing is then logged, once, and after some seconds the row says for how long (`stalled`).
Source: docs/architecture.md, "Ownership and fencing" (stall detector).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec

from aiosched.core.figures.metrics import Histogram

logger: logging.Logger = logging.getLogger(__name__)

STALL_SECONDS: Final = 1.0
_PUBLISHED_STALL: Final = 3.0  # seconds after which others are informed
_OURS: Final = str(Path(__file__).parents[2])


class Heartbeat:
    """See the module docstring. Create it on the main loop; `figures` and `loads` are called there, too."""

    def __init__(
        self,
        figures: Callable[[], dict[str, Any]],
        lag: Histogram,
        loads: Callable[[], Sequence[float | None] | None] = lambda: None,
    ) -> None:
        self._figures, self._loads = figures, loads
        self.loads: Sequence[float | None] | None = None  # of the partitions at the last beat
        self._lag = lag
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._sent: float | None = None  # monotonic second of a scheduled beat that has not run
        self._reported = False
        self._figures_failed = False  # the last beat could not take the figures
        self._blocked: list[Any] = []
        self._snapshot: str | None = None  # JSON of the figures at the last beat
        self._stall_published = False
        self.is_urgent: bool = False  # the snapshot changed in a way that should be visible within seconds

    def take_snapshot(self) -> str | None:
        """JSON of the figures at the last beat, to be stored by the caller.

        `stalled` is the number of seconds for which the event loop has been blocked, if that is long.
        """
        self.is_urgent = False
        stalled = self.stalled()
        self._stall_published = stalled >= _PUBLISHED_STALL
        if not self._stall_published:
            return self._snapshot
        figures = msgspec.json.decode(self._snapshot or "{}")
        return msgspec.json.encode(figures | {"stalled": round(stalled, 1)}).decode()

    def stalled(self) -> float:
        """For how many seconds the event loop has not run a scheduled beat; 0.0 if none is outstanding."""
        sent = self._sent
        return 0.0 if sent is None else time.monotonic() - sent

    def check(self) -> None:
        """Called periodically by another thread."""
        if self._sent is None:
            self._reported = False
            self._sent = time.monotonic()
            with contextlib.suppress(RuntimeError):  # the loop is closed already
                self._loop.call_soon_threadsafe(self._beat)
            return
        stalled = self.stalled()
        if stalled >= STALL_SECONDS and not self._reported:
            self._reported = True
            logger.warning("the event loop is blocked for %.1f s by %s", stalled, self.where())
        self.is_urgent = self.is_urgent or (stalled >= _PUBLISHED_STALL and not self._stall_published)

    def _beat(self) -> None:
        sent, self._sent = self._sent, None
        if sent is not None:
            self._lag.observe(time.monotonic() - sent)
        try:
            self.loads = self._loads()
            figures = self._figures()
            self._snapshot = msgspec.json.encode(figures).decode()
            blocked = [room.get("blocked", []) for room in figures.get("executor", {}).values()]
            self.is_urgent = self.is_urgent or blocked != self._blocked or self._stall_published
            self._blocked = blocked
            self._figures_failed = False
        except Exception:
            if not self._figures_failed:  # log it once, not with every beat
                logger.exception("the figures of this scheduler cannot be collected; the last ones stay published")
            self._figures_failed = True

    def where(self) -> str:
        """What the thread of the event loop executes now."""
        frame = sys._current_frames().get(self._thread)
        return "a thread that has ended" if frame is None else place_of(frame)


def place_of(frame: FrameType) -> str:
    """`function (file:line)` that a thread executes: the innermost line of user code, or else the innermost line."""
    lines = [line for line in reversed(traceback.extract_stack(frame)) if not line.filename.startswith("<")]
    theirs = [line for line in lines if not line.filename.startswith((_OURS, sys.prefix, sys.base_prefix))]
    line = (theirs or lines)[0]
    return f"{line.name} ({line.filename}:{line.lineno})"


def histogram_figures(histogram: Histogram) -> dict[str, Any]:
    """A histogram as JSON."""
    return {"count": histogram.count, "sum": histogram.total, "bounds": histogram.bounds, "buckets": histogram.buckets}
