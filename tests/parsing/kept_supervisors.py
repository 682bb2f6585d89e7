"""Supervisors that the parsers of a file's tests have one after the other: their imports take half a second of a CPU.

A supervisor forks a child for each file, and knows nothing of the parser before.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from aiosched.config import Settings
from aiosched.parsing.clean_processes import CleanContext
from aiosched.parsing.discovery import DagFile
from aiosched.parsing.pool import ParsingPool
from aiosched.parsing.result import ParsedFile
from aiosched.parsing.supervisor import ParseRequest
from tests.executors.kept_forkservers import surroundings


@dataclass
class KeptSupervisors:
    """In the place of ParsingPool: its pools leave their supervisors to the next one with the same settings."""

    idle: list[tuple[object, CleanContext, ProcessPoolExecutor]] = field(default_factory=list)

    def __call__(self, settings: Settings, **options: Any) -> ParsingPool:
        return _Pool(self, settings, **options)

    def end(self) -> None:
        """End the supervisors."""
        for _, context, executor in self.idle:
            context.end_blocking(executor)


class _Pool(ParsingPool):
    def __init__(self, kept: KeptSupervisors, settings: Settings, **options: Any) -> None:
        self._kept, self._was_disturbed = kept, False
        super().__init__(settings, **options)

    def _new_executor(self) -> ProcessPoolExecutor:
        self._suits = (self.size, self._prepared_with, surroundings())
        for one in self._kept.idle:
            if one[0] == self._suits:
                self._kept.idle.remove(one)
                self._context = one[1]
                return one[2]
        return super()._new_executor()

    async def _supervised(self, file: DagFile, request: ParseRequest) -> ParsedFile:
        try:
            return await super()._supervised(file, request)
        except BaseException:
            self._was_disturbed = True  # the file may still be read
            raise

    async def close(self) -> None:
        if not self._was_disturbed and self.pids:
            self._kept.idle.append((self._suits, self._context, self._executor))
            self._context = CleanContext()
            self._executor = super()._new_executor()  # which starts nothing
        await super().close()
