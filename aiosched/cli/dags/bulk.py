"""`runs bulk` and `tasks bulk`: one action on everything that the filters of the lists choose, after one preview."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from aiosched.cli.base.options import Dsn, Output, Reason, UsageProblem, Yes, confirm
from aiosched.cli.base.output import Columns, Format, RunId, chosen, counted, show_list, show_one, talk
from aiosched.cli.base.request_options import option_of
from aiosched.cli.base.session import ask, preview, with_database
from aiosched.cli.dags import lists
from aiosched.core.requests.bulk import Action, BulkTotal, BulkVerb, DagRequest, Selected, requests_of
from aiosched.core.requests.requests import Clear, MarkTasks
from aiosched.errors import NotFound, Refused

if TYPE_CHECKING:
    from aiosched.db.lists.chosen import WantedRuns
    from aiosched.db.lists.instance_lists import WantedInstances
    from aiosched.db.server.engine import Database

_AT_ONCE: Final = 10  # requests on their way
_DONE: Final = {
    BulkVerb.CLEAR: "cleared",
    BulkVerb.MARK: "marked",
    BulkVerb.NOTE: "noted",
    BulkVerb.CANCEL: "cancelled",
}

Verb = Annotated[BulkVerb, typer.Argument(help="What to do to each of them.", show_default=False)]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="STATE", help="For mark: success, failed, skipped (tasks) or queued (runs)."),
]
Note = Annotated[
    str | None, typer.Option("--note", metavar="TEXT", help="For note: at most 1,000 characters; '' removes it.")
]
OnlyFailed = Annotated[bool, option_of(Clear, "only_failed")]
DryRun = Annotated[bool, option_of(Clear, "dry_run")]
Most = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=10_000, metavar="N", help="Refuse if more than so many match.")
]

_COLUMNS: Final[Columns[Mapping[str, Any]]] = {
    "DAG": lambda row: row["dag_id"],
    "RUN": lambda row: RunId(row["run_id"]),
    "TASK": lambda row: row["task_id"] if row["map_index"] < 0 else f"{row['task_id']}[{row['map_index']}]",
    "STATE": lambda row: row["state"] or "none",
    "TRY": lambda row: row["try_number"],
}


def bulk_runs(
    verb: Verb,
    dag: lists.OfDag = None,
    state: lists.OfState = None,
    type_: lists.OfType = None,
    owner: lists.OfOwner = None,
    tag: lists.OfTag = None,
    since: lists.Since = None,
    until: lists.Until = None,
    ended_since: lists.EndedSince = None,
    longer_than: lists.LongerThan = None,
    shorter_than: lists.ShorterThan = None,
    to: To = None,
    note: Note = None,
    only_failed: OnlyFailed = False,
    limit: Most = 500,
    dry_run: DryRun = False,
    yes: Yes = False,
    reason: Reason = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Clear, mark, note or cancel all runs that the filters choose, as in `runs list`."""
    wanted = lists.wanted_runs(dag, state, type_, owner, tag, since, until, ended_since, longer_than, shorter_than)

    async def read(db: Database) -> list[Selected]:
        return [Selected(run.dag_id, run.run_id) for run in await lists.read_runs(db, wanted, limit + 1)]

    action = _action(verb, to, note, only_failed, of_runs=True)
    _refuse_all(wanted)
    _act(action, read, "run", limit, dry_run=dry_run, yes=yes, reason=reason, dsn=dsn, output=output)


def bulk_tasks(
    verb: Verb,
    dag: lists.OfDag = None,
    state: lists.OfTaskState = None,
    type_: lists.OfType = None,
    owner: lists.OfOwner = None,
    tag: lists.OfTag = None,
    task: lists.OfTask = None,
    operator: lists.OfOperator = None,
    pool: lists.OfPool = None,
    error: lists.OfError = None,
    since: lists.Since = None,
    until: lists.Until = None,
    longer_than: lists.LongerThan = None,
    shorter_than: lists.ShorterThan = None,
    to: To = None,
    note: Note = None,
    limit: Most = 500,
    dry_run: DryRun = False,
    yes: Yes = False,
    reason: Reason = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Clear, mark or note all task instances that the filters choose, as in `tasks instances`."""
    wanted = lists.wanted_instances(
        dag, state, type_, owner, tag, task, operator, pool, error, since, until, longer_than, shorter_than
    )

    async def read(db: Database) -> list[Selected]:
        rows = await lists.read_instances(db, wanted, limit + 1)
        return [Selected(row.dag_id, row.run_id, row.task_id, row.map_index) for row in rows]

    action = _action(verb, to, note, False, of_runs=False)
    _refuse_all(wanted)
    _act(action, read, "task instance", limit, dry_run=dry_run, yes=yes, reason=reason, dsn=dsn, output=output)


def _action(verb: BulkVerb, to: str | None, note: str | None, only_failed: bool, *, of_runs: bool) -> Action:
    """The action of the options. Raises UsageProblem if it means nothing."""
    allowed = ("success", "failed", "queued") if of_runs else ("success", "failed", "skipped")
    if verb is BulkVerb.MARK and to not in allowed:
        raise UsageProblem(f"mark needs --to with one of: {', '.join(allowed)}.")
    if verb is BulkVerb.NOTE and note is None:
        raise UsageProblem("note needs --note TEXT; --note '' removes notes.")
    if verb is BulkVerb.CANCEL and not of_runs:
        raise UsageProblem("cancel is for runs: use `aiosched runs bulk cancel`, or mark the tasks failed.")
    for option, value, its in (("--to", to, BulkVerb.MARK), ("--note", note, BulkVerb.NOTE)):
        if value is not None and verb is not its:
            raise UsageProblem(f"{option} is for {its}, not for {verb}.")
    if only_failed and verb is not BulkVerb.CLEAR:
        raise UsageProblem(f"--only-failed is for clear, not for {verb}.")
    return Action(verb, to, note, only_failed)


def _refuse_all(wanted: WantedRuns | WantedInstances) -> None:
    """Raise UsageProblem if there is no filter: a forgotten one must not mean everything."""
    if wanted == type(wanted)():
        raise UsageProblem("This would concern everything: choose with --dag, --state, --since or another filter.")


def _act(
    action: Action,
    read: Callable[[Database], Any],
    noun: str,
    limit: int,
    *,
    dry_run: bool,
    yes: bool,
    reason: str | None,
    dsn: str | None,
    output: Format | None,
) -> None:
    """Read what is meant, show it, ask for confirmation, and send the requests; exit 1 if some are refused."""

    async def look(db: Database) -> tuple[int, list[DagRequest], BulkTotal]:
        selected: Sequence[Selected] = await read(db)
        wanted = requests_of(action, selected[:limit])
        return len(selected), wanted, await _total(wanted, lambda each: _preview(db, each))

    number, wanted, seen = with_database(dsn, look)
    if number > limit:
        raise Refused(f"The filters choose more than {counted(limit, noun)}: narrow them, or raise --limit.")
    if not number:
        talk(f"no such {noun}s")
        return
    if not seen.runs:
        _show(seen, output)
        talk(f"nothing to {action.verb} in {counted(number, noun)}")
        if seen.refused:
            raise typer.Exit(1)
        return
    if dry_run:
        _show(seen, output)
        talk(f"would {action.verb} {_summary(seen)}")
        return
    if not yes:
        confirm(f"{action.verb.capitalize()} {_summary(seen)}?", yes=False)

    async def apply(db: Database) -> BulkTotal:
        def asked(each: DagRequest) -> Awaitable[dict[str, Any] | None]:
            return ask(db, msgspec.structs.replace(each.request, reason=reason), each.dag_id)

        return await _total(wanted, asked)

    done = with_database(dsn, apply)
    _show(done, output)
    talk(f"{_DONE[action.verb]} {_summary(done)}")
    if done.waiting:
        talk(f"{counted(done.waiting, 'request')} not applied yet: done as soon as a scheduler runs (aiosched serve)")
    if done.refused:
        raise typer.Exit(1)


async def _total(wanted: Sequence[DagRequest], outcome: Callable[[DagRequest], Any]) -> BulkTotal:
    """The sum of all outcomes."""

    async def tried(each: DagRequest) -> dict[str, Any] | str | None:
        try:
            answer: dict[str, Any] | None = await outcome(each)
        except (NotFound, Refused) as refusal:
            return str(refusal)
        return answer

    total = BulkTotal()
    for first in range(0, len(wanted), _AT_ONCE):
        some = wanted[first : first + _AT_ONCE]
        for each, found in zip(some, await asyncio.gather(*map(tried, some)), strict=True):
            total.add(each, found)
    return total


async def _preview(db: Database, each: DagRequest) -> dict[str, Any]:
    from aiosched.scheduler.requests.run_preview import preview_of_run

    if isinstance(each.request, Clear | MarkTasks):
        return await preview(db, msgspec.structs.replace(each.request, dry_run=True), each.dag_id)
    return await preview_of_run(db, each.dag_id, each.request)


def _show(total: BulkTotal, output: Format | None) -> None:
    if chosen(output) not in (Format.TABLE, Format.PLAIN):
        refused = [{"dag_id": each.dag_id, "about": each.about, "detail": why} for each, why in total.refused]
        counts = {"runs": total.runs, "dags": total.dags}
        data = {name: value for name, value in asdict(total).items() if name != "touched"}
        show_one({}, output, data=data | counts | {"refused": refused})
        return
    if total.instances:
        show_list(total.instances, _COLUMNS, output, empty="")
    if (more := total.count - len(total.instances)) > 0 and total.instances:
        talk(f"and {more} more")
    for each, why in total.refused:
        talk(f"refused: {each.about} of {each.dag_id}: {why}")


def _summary(total: BulkTotal) -> str:
    states = ", ".join(f"{number} {state}" for state, number in total.states.items())
    runs = f"{counted(total.runs, 'run')} of {counted(total.dags, 'DAG')}"
    return f"{counted(total.count, 'task instance')} in {runs} ({states})" if total.count else runs
