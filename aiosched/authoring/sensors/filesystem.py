"""A sensor for files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.authoring.connections import Connection
from aiosched.authoring.operators.sensor import BaseSensorOperator
from aiosched.authoring.triggers.file import FileTrigger, matching_files

if TYPE_CHECKING:
    from aiosched.authoring.context import Context


class FileSensor(BaseSensorOperator):
    """Waits until something matches the glob `filepath`; a folder counts once it has a file.

    With `recursive` the pattern `**` and the files of a folder reach to any depth. A relative path is below the
    `path` in the extras of the connection `fs_conn_id`, or below the worker's folder without one.
    """

    template_fields: ClassVar[Sequence[str]] = ("filepath",)
    ui_color = "#91818a"

    def __init__(
        self,
        *,
        filepath: str | Any,
        fs_conn_id: str | None = None,
        recursive: bool = False,
        deferrable: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.filepath = filepath
        self.fs_conn_id = fs_conn_id
        self.recursive = recursive
        self.deferrable = deferrable
        self._pattern: str | None = None

    async def poke(self, context: Context) -> bool:
        """Look, in a thread."""
        if self._pattern is None:
            base = (await Connection.aget(self.fs_conn_id)).extra_dejson.get("path", "") if self.fs_conn_id else ""
            self._pattern = str(Path(base) / str(self.filepath))
        found = await asyncio.to_thread(matching_files, self._pattern, recursive=self.recursive)
        if found:
            self.log.info("found %s", ", ".join(found[:20]))
        return bool(found)

    def deferred_on(self, context: Context) -> FileTrigger:
        """Looks for the same pattern."""
        return FileTrigger(str(self._pattern), self.recursive, self.poke_interval)
