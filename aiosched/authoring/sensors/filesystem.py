"""A sensor for files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.authoring.base.plain_callers import for_plain_callers
from aiosched.authoring.operators.sensor import BaseSensorOperator
from aiosched.authoring.runtime.connections import Connection
from aiosched.authoring.tasks.start_trigger import StartTriggerArgs
from aiosched.authoring.triggers.file import FileTrigger, matching_files

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


class FileSensor(BaseSensorOperator):
    """Waits until a file, or a folder that has a file, matches the glob `filepath`.

    With `recursive` the pattern `**` and the files of a folder may be at any depth. A relative path is below the
    `path` in the extras of the connection `fs_conn_id`; without a connection, below the worker's folder.
    With `start_from_trigger` the task starts without a worker; `filepath` is not rendered and `fs_conn_id` not used.
    `trigger_kwargs` are arguments of the trigger that it starts in.
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
        start_from_trigger: bool = False,
        trigger_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if start_from_trigger and fs_conn_id:
            raise self.fail(
                f"Sensor {self.task_id!r}: start_from_trigger needs filepath alone, because no worker reads the "
                f"connection {fs_conn_id!r} before. Use deferrable=True."
            )
        self.start_from_trigger = start_from_trigger
        self.trigger_kwargs: dict[str, Any] = dict(trigger_kwargs or {})
        self.filepath = filepath
        self.fs_conn_id = fs_conn_id
        self.recursive = recursive
        self.deferrable = deferrable
        self._pattern: str | None = None

    @for_plain_callers
    async def poke(self, context: Context) -> bool:
        """Check for a match in a thread."""
        if self._pattern is None:
            base = (await Connection.aget(self.fs_conn_id)).extra_dejson.get("path", "") if self.fs_conn_id else ""
            self._pattern = str(Path(base) / str(self.filepath))
        found = await asyncio.to_thread(matching_files, self._pattern, recursive=self.recursive)
        if found:
            self.log.info("found %s", ", ".join(found[:20]))
        return bool(found)

    def initial_trigger(self) -> StartTriggerArgs | None:
        if not self.start_from_trigger:
            return None
        kwargs = {"filepath": self.filepath, "recursive": self.recursive, "poke_interval": self.poke_interval}
        return StartTriggerArgs(FileTrigger, "execute_complete", kwargs | self.trigger_kwargs, timeout=self.timeout)

    def deferred_on(self, context: Context) -> FileTrigger:
        """A trigger with the same pattern."""
        return FileTrigger(str(self._pattern), self.recursive, self.poke_interval)
