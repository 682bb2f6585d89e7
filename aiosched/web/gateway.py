"""What the API works with: the database, the settings, and the way to ask the owner of a DAG for something.

A request of a person becomes a row of the command inbox, so it is done by whichever scheduler
owns the DAG, survives a crash, and stands in the audit log. One connection listens for all
answers. Source: the design, section 4.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, cast

from fastapi import Depends, Request

from aiosched.clock import Clock, SystemClock
from aiosched.config import Settings
from aiosched.db import inbox
from aiosched.db.engine import Connection, Database
from aiosched.errors import NotFound, Refused
from aiosched.web.access import Principal

ANSWER_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request: its number, and its result, or None while it still waits."""

    command: int
    result: dict[str, Any] | None


class Gateway:
    """One for each web application. `start` before the first request, `stop` after the last."""

    def __init__(self, db: Database, settings: Settings, *, clock: Clock | None = None) -> None:
        self.db, self.settings = db, settings
        self.clock: Clock = clock or SystemClock()
        self._ears: Connection | None = None
        self._waiting: dict[int, asyncio.Event] = {}
        self._starting = asyncio.Lock()

    async def stop(self) -> None:
        """Close the listening connection."""
        ears, self._ears = self._ears, None
        if ears is not None:
            with contextlib.suppress(OSError):
                await ears.close()

    async def ask(
        self,
        verb: str,
        dag_id: str | None,
        args: Mapping[str, Any] | None = None,
        *,
        by: Principal,
        reason: str | None = None,
        partition: int | None = None,
    ) -> Answer:
        """Ask the owner of `dag_id` (or of `partition`); wait a few seconds for the answer.

        Raises NotFound or Refused with the owner's words.
        """
        await self._listen()
        async with self.db.acquire() as conn:
            number = await inbox.add_command(
                conn,
                verb=verb,
                dag_id=dag_id,
                args=args or {},
                requested_by=by.requested_by,
                reason=reason,
                partition=partition,
            )
        answer = await self._wait(number)
        if answer is None:
            return Answer(number, None)
        if answer.state == "refused":
            kind = NotFound if answer.result.get("exit_code") == NotFound.exit_code else Refused
            raise kind(str(answer.result.get("error", "refused")))
        return Answer(number, answer.result)

    async def _wait(self, number: int) -> inbox.CommandResult | None:
        heard = self._waiting.setdefault(number, asyncio.Event())
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                while True:
                    heard.clear()
                    async with self.db.acquire() as conn:
                        if (answer := await inbox.read_answer(conn, number)) is not None:
                            return answer
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_SECONDS):
                            await heard.wait()
        except TimeoutError:
            return None
        finally:
            self._waiting.pop(number, None)

    async def _listen(self) -> None:
        async with self._starting:
            if self._ears is None or self._ears.is_closed():
                self._ears = await self.db.connect(application_name="aiosched web news")
                await self._ears.add_listener(inbox.APPLIED_CHANNEL, self._hear)

    def _hear(self, _: object, __: int, ___: str, payload: str) -> None:
        for number in payload.split(","):
            if (waiting := self._waiting.get(int(number))) is not None:
                waiting.set()


def _gateway(request: Request) -> Gateway:
    return cast("Gateway", request.app.state.gateway)


TheGateway = Annotated[Gateway, Depends(_gateway)]
