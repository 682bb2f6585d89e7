"""The service of attempts whose log cannot be written: their output is lost, and that is said."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from aiosched.core.values.messages import AttemptKey
from aiosched.core.values.unwritten import TAIL
from aiosched.db.server.engine import Database
from aiosched.db.statements import unwritten_logs
from aiosched.db.statements.unwritten_logs import UnwrittenRow
from aiosched.scheduler.services.service_calls import ServiceCall

logger: logging.Logger = logging.getLogger(__name__)

SAY_AGAIN: Final = 60.0  # seconds
_LONGEST: Final = 500  # characters
_MOST_LOST: Final = 2**62


def _line(said: object) -> str:
    """One short line of what a task says: any code of its author can ask."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in str(said)[:_LONGEST])


class UnwrittenLogs:
    """Counts the logs that could not be written, keeps the last of each, and warns once a minute."""

    def __init__(self, on_lost: Callable[[], None], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._on_lost, self._monotonic = on_lost, monotonic
        self._silent_until = 0.0
        self._unsaid = 0

    async def __call__(self, db: Database, call: ServiceCall) -> None:
        """The service `unwritten_log`: {name, why, lost, tail, hostname, task_index, map_index, try_number | null}."""
        args = call.args
        lost, tail = min(max(int(args["lost"]), 0), _MOST_LOST), str(args["tail"])[-TAIL:].replace("\0", "\ufffd")
        row = UnwrittenRow(_line(args["hostname"]), _line(args["why"]), lost, tail)
        if args["try_number"] is not None:  # callbacks have logs of their own, which nobody looks for by try
            key = AttemptKey(call.run, int(args["task_index"]), int(args["map_index"]), int(args["try_number"]))
            await unwritten_logs.store(db, key, row)
        self._on_lost()
        self._say(_line(args["name"]), row)

    def _say(self, name: str, row: UnwrittenRow) -> None:
        now = self._monotonic()
        if now < self._silent_until:
            self._unsaid += 1
            return
        others = f", and {self._unsaid} others in the last minute" if self._unsaid else ""
        logger.warning(
            "the log of %s could not be written on %s%s: %s. The end of these %d bytes is kept in the database; make "
            "room, or let it write below logs.folder", name, row.hostname, others, row.why, row.lost,
        )  # fmt: skip
        self._silent_until, self._unsaid = now + SAY_AGAIN, 0
