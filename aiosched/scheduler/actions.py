"""What an embedding application may ask of its scheduler: the same requests as the command line's.

Each is stored in the inbox, applied by the owner of the DAG, and answered when it is stored.
All raise NotFound or Refused with the owner's words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from aiosched.clock import Clock
from aiosched.core.creation.backfills import Rerun
from aiosched.core.values.ids import partition_of
from aiosched.core.values.states import RunState, TaskState
from aiosched.core.why.explanation import Explanation
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.run_handle import RunHandle, Runs

_ANSWER_SECONDS: Final = 30.0


class _Asking(Runs, Protocol):
    clock: Clock

    @property
    def db(self) -> Database: ...

    async def request(
        self, verb: str, dag_id: str | None, args: Mapping[str, Any], *, partition: int | None = None
    ) -> dict[str, Any]: ...

    async def read_folder(self) -> bool: ...


class Actions:
    """Mixed into `Scheduler`. Instants are aware."""

    async def request(
        self: _Asking, verb: str, dag_id: str | None, args: Mapping[str, Any], *, partition: int | None = None
    ) -> dict[str, Any]:
        """Send a request to the owner of a DAG (or partition) and wait for its answer (requests/commands.py).

        What is not found is asked for again once the DAGs folder has been read for the first time.
        """
        while True:
            async with self.db.acquire() as conn:
                command = await inbox.add_command(
                    conn, verb=verb, dag_id=dag_id, args=args, requested_by="embedded", partition=partition
                )
            answer = await inbox.wait_applied(self.db, command, timeout=_ANSWER_SECONDS)
            if answer is None:
                raise Refused(f"Nobody has answered the request {verb!r} yet; it waits as number {command}.")
            if answer.error is None:
                return answer.result
            if not isinstance(answer.error, NotFound) or not await self.read_folder():
                raise answer.error

    async def trigger(
        self: _Asking,
        dag_id: str,
        *,
        conf: Mapping[str, Any] | None = None,
        logical_date: datetime | None = None,
        run_id: str | None = None,
        run_after: datetime | None = None,
    ) -> RunHandle:
        """Create a run; returns when it is stored. Raises Refused or NotFound with the reason."""
        args: dict[str, Any] = {"conf": dict(conf or {}), "run_id": run_id, "triggered_by": "api"}
        if logical_date is not None:
            args["logical_date"] = logical_date.isoformat()
        if run_after is not None:
            args["run_after"] = run_after.isoformat()
        result = await self.request("trigger", dag_id, args)
        return RunHandle(self, dag_id, result["run_id"], result["id"])

    async def emit(self: _Asking, asset: str, extra: Mapping[str, Any] | None = None) -> None:
        """Make an event of the asset with that name, as a task would: DAGs that wait for it run.

        `extra` is a JSON object. Raises NotFound for an unknown asset, Refused for one that no DAG mentions.
        """
        args = {"name": asset, "extra": dict(extra or {})}
        await self.request("emit_asset", None, args, partition=partition_of(asset))

    async def why(
        self: _Asking, dag_id: str, run: str | None = None, task: str | None = None, map_index: int = -1
    ) -> Explanation:
        """Why a DAG, a run of it (a run id, a logical date, `latest`) or a task instance does not run.

        Raises NotFound. What the command `aiosched why` prints is `aiosched.core.why.explanation.Explanation`.
        """
        from aiosched.scheduler.why.why import why as explain  # imports SQLAlchemy, which nothing else here needs

        return await explain(self.db, dag_id, run, task, map_index, now=self.clock.now())

    async def pause(self: _Asking, dag_id: str) -> None:
        """Create and start nothing more of a DAG; what runs goes on."""
        await self.request("pause", dag_id, {})

    async def unpause(self: _Asking, dag_id: str) -> None:
        """Undo `pause`."""
        await self.request("unpause", dag_id, {})

    async def cancel(self: _Asking, dag_id: str, run_id: str) -> None:
        """End a run: its running tasks are stopped, the others do not start, the run is failed."""
        await self.request("cancel_run", dag_id, {"run_id": run_id})

    async def clear(
        self: _Asking,
        dag_id: str,
        run_ids: Sequence[str] | None = None,
        *,
        task_ids: Sequence[str] | None = None,
        upstream: bool = False,
        downstream: bool = False,
        only_failed: bool = False,
        only_running: bool = False,
        map_index: int | None = None,
        past: bool = False,
        future: bool = False,
        prevent_running: bool = False,
        newest_version: bool = False,
        dry_run: bool = False,
    ) -> list[dict[str, Any]]:
        """Let task instances run again, of all runs and all tasks where none are named (28.2).

        `map_index` means the instances with it, None those with any. The setups and teardowns of what is cleared
        are cleared with it, whatever their state.
        `past` and `future` add the runs before and after those named, by logical date.
        `prevent_running` raises Refused, naming them, where instances are running; else they
        are stopped and run again. `newest_version` moves the runs to the newest version of the
        DAG before: task instances follow their task ids, tasks that are gone leave the run.
        Running runs are refused then.
        Returns what was touched as it was before: run_id, task_id, map_index, state, try_number;
        at most 1,000 of them.
        """
        args = {
            "run_ids": None if run_ids is None else list(run_ids),
            "task_ids": None if task_ids is None else list(task_ids),
            "upstream": upstream,
            "downstream": downstream,
            "only_failed": only_failed,
            "only_running": only_running,
            "map_index": map_index,
            "past": past,
            "future": future,
            "prevent_running": prevent_running,
            "newest_version": newest_version,
            "dry_run": dry_run,
        }
        answer = await self.request("clear", dag_id, args)
        return list(answer["instances"])

    async def mark_task(
        self: _Asking,
        dag_id: str,
        run_id: str,
        task_id: str,
        state: TaskState | str,
        *,
        map_index: int | None = None,
        upstream: bool = False,
        downstream: bool = False,
        past: bool = False,
        future: bool = False,
        dry_run: bool = False,
    ) -> list[dict[str, Any]]:
        """Set a task instance to success, failed or skipped (28.4), without `map_index` all of the task.

        `upstream` and `downstream` add the tasks before and behind it, `past` and `future` the
        runs before and after that one, by logical date. Returns what was touched, as `clear` does.
        """
        args = {
            "run_ids": [run_id],
            "task_ids": [task_id],
            "map_index": map_index,
            "upstream": upstream,
            "downstream": downstream,
            "past": past,
            "future": future,
            "dry_run": dry_run,
            "state": str(state),
        }
        answer = await self.request("mark_tasks", dag_id, args)
        return list(answer["instances"])

    async def mark_run(self: _Asking, dag_id: str, run_id: str, state: RunState | str) -> None:
        """Set a run to success or failed with all that is unfinished in it, or queue it again (28.5)."""
        await self.request("mark_run", dag_id, {"run_id": run_id, "state": str(state)})

    async def set_note(
        self: _Asking, dag_id: str, run_id: str, note: str, *, task_id: str | None = None, map_index: int | None = None
    ) -> None:
        """Put a note of at most 1,000 characters on a run, or on one of its task instances; an empty one removes it."""
        args = {"run_id": run_id, "note": note, "task_id": task_id, "map_index": map_index}
        await self.request("set_note", dag_id, args)

    async def backfill(
        self: _Asking,
        dag_id: str,
        first: datetime,
        final: datetime,
        *,
        rerun: Rerun | str = Rerun.MISSING,
        max_active_runs: int = 10,
        backwards: bool = False,
        conf: Mapping[str, Any] | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Create the runs of past dates, both inclusive (29.1); returns {id, dates: [{logical_date, fate}]}."""
        args = {
            "from": first.isoformat(),
            "to": final.isoformat(),
            "rerun": str(rerun),
            "max_active_runs": max_active_runs,
            "backwards": backwards,
            "conf": dict(conf or {}),
            "dry_run": dry_run,
        }
        return await self.request("backfill_create", dag_id, args)
