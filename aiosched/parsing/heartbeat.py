"""The heartbeat of a parser that runs alone: a row that says that it is there, and what it does or waits for.

What fails here never ends the parsing: others then see a parser that is silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_of_database
from aiosched.db.statements import parsers
from aiosched.db.statements.parsers import ParserFigures
from aiosched.version import __version__

if TYPE_CHECKING:
    from aiosched.parsing.service import Parser

log: Final = logging.getLogger(__name__)

EVERY: Final = 5.0  # seconds
_LEAVING: Final = 2.0  # seconds that the last statement may take


def figures_of(parser: Parser, trouble: str | None) -> ParserFigures:
    """What a parser says of itself. `trouble`: what ended the one before it; it counts until this one works."""
    stats = parser.stats
    return ParserFigures(
        listed_at=parser.listed_at,
        files=stats.files,
        errors=stats.errors,
        unread=parser.unread_files,
        waits_for=parser.waits_for,
        trouble=trouble if parser.listed_at is None else None,
    )


class ParserHeartbeat:
    """Keeps the row of one parser. `figures` is called before each renewal, on the event loop."""

    def __init__(
        self,
        db: Database,
        figures: Callable[[], ParserFigures],
        *,
        name: str | None,
        bundles: Sequence[str],
    ) -> None:
        self._db, self._figures, self._bundles = db, figures, tuple(bundles)
        self._hostname = socket.gethostname()
        self._name = name or self._hostname
        self._row: str | None = None
        self._is_failing = False

    async def run(self) -> None:
        """Renew the row until cancelled."""
        while True:
            await self.beat()
            await asyncio.sleep(EVERY)

    async def beat(self) -> None:
        """Renew the row once, or enter it again if it is gone."""
        try:
            async with self._db.acquire() as conn:
                if self._row is not None and await parsers.renew(conn, self._row, self._figures()):
                    self._is_failing = False
                    return
                self._row = await parsers.register(
                    conn,
                    name=self._name,
                    hostname=self._hostname,
                    pid=os.getpid(),
                    version=__version__,
                    bundles=self._bundles,
                    figures=self._figures(),
                )
        except Exception as error:
            if not is_of_database(error):
                log.exception("the heartbeat of this parser failed")
            elif not self._is_failing:
                log.warning("this parser cannot say that it is there, which is tried again: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False

    async def leave(self) -> None:
        """Remove the row, if the database answers."""
        if self._row is None:
            return
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_LEAVING), self._db.acquire() as conn:
                await parsers.leave(conn, self._row)
