"""The requests that an embedding application can make to its scheduler: the same as those of the command line.

Each is put into the inbox, applied by the owner of the DAG, and answered once its effects are stored; a preview
(`dry_run`) is read from the rows. All raise NotFound or Refused with the owner's message. `reason` is kept in the
audit log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from aiosched.clock import Clock
from aiosched.config import Settings
from aiosched.core.creation.backfills import Rerun
from aiosched.core.requests.requests import (
    AnswerInput,
    BackfillCancel,
    BackfillCreate,
    BackfillPause,
    BackfillResume,
    CancelRun,
    Clear,
    DeleteDag,
    EmitAsset,
    MarkRun,
    MarkTasks,
    Pause,
    ReleaseDag,
    Request,
    SetNote,
    Trigger,
    Unpause,
)
from aiosched.core.requests.stored import read_argument, verb_of
from aiosched.core.values.states import RunState, TaskState
from aiosched.core.why.explanation import Explanation
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.server.engine import Database
from aiosched.db.statements.inbox import ask_owner
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.requests.preview import is_preview, preview
from aiosched.scheduler.run_handle import RunHandle, Runs

_ANSWER_SECONDS: Final = 30.0


class _Asking(Runs, Protocol):
    clock: Clock
    settings: Settings

    @property
    def db(self) -> Database: ...

    async def request(self, request: Request, dag_id: str | None, *, reason: str | None = None) -> dict[str, Any]: ...

    async def read_folder(self) -> bool: ...


class Actions:
    """Mixed into `Scheduler`. Instants are aware."""

    async def request(
        self: _Asking, request: Request, dag_id: str | None, *, reason: str | None = None
    ) -> dict[str, Any]:
        """Send a request to the owner of a DAG (None: of an asset) and wait for its answer; a preview is a read.

        On NotFound it is sent again once the DAGs folder has been read for the first time.
        """
        while True:
            try:
                return await _answer(self, request, dag_id, reason)
            except NotFound:
                if not await self.read_folder():
                    raise

    async def trigger(
        self: _Asking,
        dag_id: str,
        *,
        conf: Mapping[str, Any] | None = None,
        logical_date: datetime | None = None,
        run_id: str | None = None,
        run_after: datetime | None = None,
        partition_key: str | None = None,
        unpause: bool = False,
        reason: str | None = None,
    ) -> RunHandle:
        """Create a run; returns when it is stored. `unpause`: unpause the DAG first.

        With a `partition_key` the run is about that partition of its assets.

        Raises Refused or NotFound with the reason.
        """
        request = Trigger(
            conf=dict(conf or {}),
            logical_date=logical_date,
            run_id=run_id,
            partition_key=partition_key,
            run_after=run_after,
            unpause=unpause,
            triggered_by="api",
        )
        result = await self.request(request, dag_id, reason=reason)
        return RunHandle(self, dag_id, result["run_id"], result["id"])

    async def emit(
        self: _Asking,
        asset: str,
        extra: Mapping[str, Any] | None = None,
        *,
        partition_key: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Make an event of the asset with that name, as a task would: DAGs that wait for it run.

        `extra` is a JSON object; with a `partition_key` it is about that partition of the asset. Raises NotFound for an
        unknown asset, Refused for one that no DAG mentions.
        """
        request = EmitAsset(name=asset, extra=dict(extra or {}), partition_key=partition_key)
        await self.request(request, None, reason=reason)

    async def why(
        self: _Asking, dag_id: str, run: str | None = None, task: str | None = None, map_index: int = -1
    ) -> Explanation:
        """Why a DAG, a run of it (a run id, a logical date, `latest`) or a task instance does not run.

        Raises NotFound. The command `aiosched why` prints the same `aiosched.core.why.explanation.Explanation`.
        """
        from aiosched.scheduler.why.why import why as explain  # imports SQLAlchemy, which nothing else here needs

        return await explain(self.db, dag_id, run, task, map_index, now=self.clock.now())

    async def pause(self: _Asking, dag_id: str, *, reason: str | None = None) -> None:
        """Create and start nothing more of a DAG; running tasks go on."""
        await self.request(Pause(), dag_id, reason=reason)

    async def unpause(self: _Asking, dag_id: str, *, reason: str | None = None) -> None:
        """Undo `pause`."""
        await self.request(Unpause(), dag_id, reason=reason)

    async def delete(self: _Asking, dag_id: str, *, reason: str | None = None) -> None:
        """Remove a DAG's rows: versions, runs, task instances. A file that is still there brings the DAG back.

        Raises Refused while runs of it run.
        """
        await self.request(DeleteDag(), dag_id, reason=reason)

    async def release(self: _Asking, dag_id: str, *, reason: str | None = None) -> None:
        """Try a DAG that is in quarantine again now, before its pause is over. Raises Refused for any other DAG."""
        await self.request(ReleaseDag(), dag_id, reason=reason)

    async def cancel(self: _Asking, dag_id: str, run_id: str, *, reason: str | None = None) -> None:
        """End a run: its running tasks are stopped, the others do not start, the run is failed."""
        await self.request(CancelRun(run_id=run_id), dag_id, reason=reason)

    async def clear(
        self: _Asking,
        dag_id: str,
        run_ids: Sequence[str] | None = None,
        *,
        first: datetime | None = None,
        final: datetime | None = None,
        task_ids: Sequence[str] | None = None,
        pattern: str | None = None,
        upstream: bool = False,
        downstream: bool = False,
        only_failed: bool = False,
        only_running: bool = False,
        map_index: int | None = None,
        past: bool = False,
        future: bool = False,
        prevent_running: bool = False,
        newest_version: bool = False,
        dependents: bool = True,
        dry_run: bool = False,
        reason: str | None = None,
    ) -> list[dict[str, Any]]:
        """Let task instances run again: of all runs and all tasks unless some are named (28.2).

        Without `run_ids` the runs with a logical date in [first, final] are selected. `pattern` is a regular
        expression for task ids. `map_index` selects the instances with that index, None all. The setups and teardowns
        of cleared tasks are cleared with them, whatever their state.
        `past` and `future` add the runs before and after the named ones, by logical date.
        Running instances are stopped and run again; with `prevent_running` Refused is raised instead, naming them.
        `newest_version` moves the runs in which something is selected to the newest version of the DAG: task instances
        follow their task ids, tasks that no longer exist leave the run. A running run that would move is refused.
        With `dependents`, what selected `ExternalTaskMarker`s mark in other DAGs is cleared, too (28.6).
        Returns the touched instances as they were before: run_id, task_id, map_index, state, try_number;
        at most 1,000 of them.
        """
        request = Clear(
            run_ids=None if run_ids is None else tuple(run_ids),
            first=first,
            final=final,
            task_ids=None if task_ids is None else tuple(task_ids),
            pattern=pattern,
            upstream=upstream,
            downstream=downstream,
            only_failed=only_failed,
            only_running=only_running,
            map_index=map_index,
            past=past,
            future=future,
            prevent_running=prevent_running,
            newest_version=newest_version,
            dependents=dependents,
            dry_run=dry_run,
        )
        answer = await self.request(request, dag_id, reason=reason)
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
        only_failed: bool = False,
        only_running: bool = False,
        past: bool = False,
        future: bool = False,
        dry_run: bool = False,
        reason: str | None = None,
    ) -> list[dict[str, Any]]:
        """Set a task instance to success, failed or skipped (28.4); without `map_index`, all instances of the task.

        `upstream` and `downstream` add the tasks before and after it, `past` and `future` the
        runs before and after that one, by logical date. Returns what was touched, as `clear` does.
        """
        request = MarkTasks(
            run_ids=(run_id,),
            task_ids=(task_id,),
            map_index=map_index,
            upstream=upstream,
            downstream=downstream,
            only_failed=only_failed,
            only_running=only_running,
            past=past,
            future=future,
            dry_run=dry_run,
            state=read_argument(MarkTasks, "state", state),
        )
        answer = await self.request(request, dag_id, reason=reason)
        return list(answer["instances"])

    async def mark_run(
        self: _Asking, dag_id: str, run_id: str, state: RunState | str, *, reason: str | None = None
    ) -> None:
        """Set a run to success or failed with all that is unfinished in it, or queue it again (28.5)."""
        request = MarkRun(run_id=run_id, state=read_argument(MarkRun, "state", state))
        await self.request(request, dag_id, reason=reason)

    async def set_note(
        self: _Asking, dag_id: str, run_id: str, note: str, *, task_id: str | None = None, map_index: int | None = None
    ) -> None:
        """Put a note of at most 1,000 characters on a run, or on one of its task instances; an empty one removes it."""
        await self.request(SetNote(run_id=run_id, note=note, task_id=task_id, map_index=map_index), dag_id)

    async def answer_input(
        self: _Asking,
        dag_id: str,
        run_id: str,
        task_id: str,
        options: Sequence[str],
        *,
        params: Mapping[str, Any] | None = None,
        map_index: int | None = None,
        by: str = "embedded",
        reason: str | None = None,
    ) -> dict[str, Any]:
        """Answer what a task asks, which goes on then; returns {run_id, task_id, map_index, options, params}.

        Raises NotFound, and Refused if it does not wait for an answer, or for one that is wrong.
        """
        request = AnswerInput(
            run_id=run_id,
            task_id=task_id,
            options=tuple(options),
            params=dict(params or {}),
            map_index=map_index,
            by=by,
        )
        return await self.request(request, dag_id, reason=reason)

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
        reason: str | None = None,
    ) -> dict[str, Any]:
        """Create the runs of past dates, both inclusive (29.1); returns {id, dates: [{logical_date, fate}]}."""
        request = BackfillCreate(
            first=first,
            final=final,
            rerun=read_argument(BackfillCreate, "rerun", rerun),
            max_active_runs=max_active_runs,
            backwards=backwards,
            conf=dict(conf or {}),
            dry_run=dry_run,
        )
        return await self.request(request, dag_id, reason=reason)

    async def pause_backfill(self: _Asking, dag_id: str, number: int, *, reason: str | None = None) -> None:
        """Start no more runs of a backfill; running ones go on."""
        await self.request(BackfillPause(id=number), dag_id, reason=reason)

    async def resume_backfill(self: _Asking, dag_id: str, number: int, *, reason: str | None = None) -> None:
        """Undo `pause_backfill`."""
        await self.request(BackfillResume(id=number), dag_id, reason=reason)

    async def cancel_backfill(self: _Asking, dag_id: str, number: int, *, reason: str | None = None) -> int:
        """Fail the queued runs of a backfill, let running ones go on; returns how many have failed."""
        answer = await self.request(BackfillCancel(id=number), dag_id, reason=reason)
        return int(answer["failed"])


async def _answer(scheduler: _Asking, request: Request, dag_id: str | None, reason: str | None) -> dict[str, Any]:
    if is_preview(request):
        return await preview(
            scheduler.db,
            str(dag_id),
            request,
            now=scheduler.clock.now(),
            max_backfill_runs=scheduler.settings.scheduler.max_backfill_runs,
        )
    number, result = await ask_owner(
        scheduler.db,
        request,
        dag_id,
        requested_by="embedded",
        timeout=_ANSWER_SECONDS,
        reason=reason,
        keyring=Keyring.of(scheduler.settings),
    )
    if result is None:
        verb = verb_of(type(request))
        raise Refused(f"No scheduler has answered the request {verb!r} yet; it waits as number {number}.")
    return result
