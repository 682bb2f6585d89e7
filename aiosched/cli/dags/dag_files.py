"""`aiosched dags test`, `next` and `check`: commands that work on DAG files.

They need no database; if there is one, variables and connections that files read at import come from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from aiosched.cli.base.file_values import file_values, parse
from aiosched.cli.base.options import (
    Conf,
    DagId,
    DagsFolder,
    Dsn,
    Output,
    Param,
    PartitionKey,
    UsageProblem,
    read_conf,
    read_day_or_instant,
    read_pairs,
)
from aiosched.cli.base.output import Columns, Format, chosen, duration, show_data, show_list, talk
from aiosched.cli.base.session import has_database, load, open_database, shown_path
from aiosched.core.timetables.days import start_of
from aiosched.errors import ConfigError, DagError, DatabaseError, NotFound, did_you_mean

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG
    from aiosched.config import Settings
    from aiosched.core.creation.next_run import SchedulePosition
    from aiosched.core.graph.spec import DagSpec
    from aiosched.parsing.discovery import DagFile
    from aiosched.parsing.plugin_findings import PluginFinding
    from aiosched.parsing.result import FileError, ParsedFile


# ---- test: run_once ----


def run_once(
    dag_id: DagId,
    date: Annotated[
        str | None,
        typer.Argument(metavar="DATE", help="The run's logical date; of a day its beginning."),
    ] = None,
    param: Param = None,
    conf: Conf = None,
    task: Annotated[str | None, typer.Option("--task", metavar="TASK", help="Run only this task.")] = None,
    mock: Annotated[
        list[str] | None,
        typer.Option("--mock", metavar="TASK=JSON", help="Do not run this task; use this return value."),
    ] = None,
    partition_key: PartitionKey = None,
    dags: DagsFolder = None,
    output: Output = None,
) -> None:
    """Run one DAG run in this process, without a database; exit 1 if it fails."""
    from aiosched.core.graph.given_texts import fitted
    from aiosched.executors.dag_test import run_dag_test

    loaded = load(core__dags_folder=dags)
    _log_for_people(loaded.settings)
    document = read_conf(conf, param)
    mocks = read_pairs(mock or (), "--mock")
    given = read_day_or_instant(date, "DATE") if date else None
    with contextlib.redirect_stdout(sys.stderr):  # what tasks print goes to stderr; stdout has only the result
        dag = find_dag(dag_id, loaded.settings)
        _known_tasks(dag, [*mocks, *([task] if task else [])])
        logical_date = None if given is None else start_of(given, dag.zone_name)
        options: dict[str, Any] = {"logical_date": logical_date, "partition_key": partition_key}
        given_conf = fitted(document, {name: one.to_spec() for name, one in dag.params.declared().items()})
        result = asyncio.run(run_dag_test(dag, conf=given_conf, mocks=mocks, only_task=task, **options))
    if chosen(output) in (Format.JSON, Format.YAML):
        tasks = [
            {"task_id": t.task_id, "map_index": t.map_index, "state": t.state, "try_number": t.try_number}
            for t in result.tasks
        ]
        show_data({"state": result.state, "tasks": tasks}, chosen(output))
    else:
        columns: Columns[Any] = {
            "TASK": lambda t: t.task_id if t.map_index < 0 else f"{t.task_id}[{t.map_index}]",
            "STATE": lambda t: t.state,
            "TRY": lambda t: t.try_number,
            "REASON": lambda t: t.reason,
        }
        show_list(result.tasks, columns, output, empty="it has no tasks")
        talk(f"{dag_id}: {result.state}")
    if result.state != "success":
        raise typer.Exit(1)


def _known_tasks(dag: DAG, task_ids: list[str]) -> None:
    for task_id in task_ids:
        if task_id not in dag.task_dict:
            raise NotFound(f"DAG {dag.dag_id!r} has no task {task_id!r}.{did_you_mean(task_id, dag.task_dict)}")


def _log_for_people(settings: Settings) -> None:
    from aiosched.logs import configure_logging

    text = settings.logs.model_copy(update={"format": "text"})
    configure_logging(text if settings.logs.format == "auto" else settings.logs)


# ---- finding a DAG in files ----


def find_dag(dag_id: str, settings: Settings) -> DAG:
    """Import files of the DAGs folder, first those that mention `dag_id`, until one defines it.

    Raises NotFound naming similar ids and files that cannot be imported, ConfigError if there is no such folder,
    DagError with the code frame if a file that mentions it cannot be imported.
    """
    from aiosched.airflow.finder import install
    from aiosched.authoring.base.settings import AuthoringDefaults, use_defaults
    from aiosched.authoring.dag.loader import load_file
    from aiosched.authoring.dag.sources import finder
    from aiosched.parsing.tracebacks import file_error

    use_defaults(AuthoringDefaults.of(settings))
    install(settings.core.airflow)
    files = _dag_files(settings)
    root: Path | None = None
    seen: list[str] = []
    broken: dict[str, FileError] = {}
    mentions = {file.name: dag_id.encode() in file.path.read_bytes() for file in files}
    with file_values(settings):
        for file in sorted(files, key=lambda file: (not mentions[file.name], file.name)):
            before, root = root, file.root or settings.core.dags_folder.absolute()
            if before is not None and before != root:
                finder.park(before)  # modules of two bundles can have the same names
            try:
                dags = load_file(file.path, root=root, member=file.member).dags
            except (Exception, SystemExit) as error:  # whatever user code raises at import
                path = file.path / file.member if file.member else file.path
                broken[file.name] = file_error(error, path=str(path), root=str(root))
                continue
            for dag in dags:
                if dag.dag_id == dag_id:
                    return dag
                seen.append(dag.dag_id)
    for name, wrong in broken.items():
        if mentions[name]:
            raise DagError(f"{_where(name, wrong)}\n{wrong.code_frame or wrong.traceback or ''}".rstrip())
    hint = did_you_mean(dag_id, seen) or (f" Found: {', '.join(sorted(seen)[:10])}." if seen else "")
    unread = f" Not importable: {', '.join(broken)}; see `aiosched dags check`." if broken else ""
    where = "the bundles" if settings.dags.bundles else shown_path(settings.core.dags_folder)
    raise NotFound(f"No file in {where} defines the DAG {dag_id!r}.{hint}{unread}")


def load_dag(dag_id: str, root: Path, file: str, settings: Settings) -> DAG:
    """The DAG that a file below `root` defines. Raises NotFound."""
    from aiosched.airflow.finder import install
    from aiosched.authoring.base.settings import AuthoringDefaults, use_defaults
    from aiosched.authoring.dag.loader import load_file

    use_defaults(AuthoringDefaults.of(settings))
    install(settings.core.airflow)
    path, member = root / file, None
    if not path.exists():  # a module in an archive
        path, member = path.parent, path.name
    with file_values(settings):
        found = {dag.dag_id: dag for dag in load_file(path, root=root, member=member).dags}
    if dag_id not in found:
        raise NotFound(f"{file} does not define the DAG {dag_id!r}.{did_you_mean(dag_id, found)}")
    return found[dag_id]


def _dag_files(settings: Settings) -> list[DagFile]:
    from aiosched.parsing.check import list_bundles
    from aiosched.parsing.discovery import Discovery, FileSelection

    if settings.dags.bundles:
        return [file for part in asyncio.run(list_bundles(settings)) for file in part.files.values()]
    folder = settings.core.dags_folder
    if not folder.is_dir():
        raise ConfigError(f"There is no DAGs folder {shown_path(folder)}. Name it with --dags or AIOSCHED_DAGS.")
    listing = Discovery(folder, FileSelection.of(settings)).list(now_ns=time.time_ns())
    return list(listing.files.values())


def _where(name: str, wrong: FileError) -> str:
    return f"{name}:{wrong.line}: {wrong.type}: {wrong.message}" if wrong.line else f"{name}: {wrong.message}"


# ---- next ----


@dataclass(frozen=True, slots=True)
class NextRunLine:
    """An upcoming run. Instants in UTC."""

    logical_date: datetime
    data_interval_start: datetime
    data_interval_end: datetime
    run_after: datetime
    note: str | None


def next_(
    dag_id: DagId,
    number: Annotated[int, typer.Option("--number", "-n", min=1, max=10_000, metavar="N", help="How many.")] = 5,
    tz: Annotated[
        str | None, typer.Option("--tz", metavar="ZONE", help="Show times in this zone; default: the DAG's own.")
    ] = None,
    dags: DagsFolder = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Show the next data intervals, when their runs are due, and the effect of clock changes on them."""
    from aiosched.core.creation.next_run import coming_runs
    from aiosched.core.timetables import condition_of, zone
    from aiosched.errors import TimetableError

    now = datetime.now(UTC)
    spec, position = _from_files(dag_id, dags) if dags is not None else asyncio.run(_from_database(dag_id, dsn, now))
    try:
        shown_in = zone(tz or spec.timezone)
    except TimetableError as error:
        raise UsageProblem(f"--tz: {error}") from None
    coming = [
        NextRunLine(u.run.logical_date, u.run.interval.start, u.run.interval.end, u.run.run_after, u.note)
        for u in coming_runs(spec, position, now=now, n=number)
    ]

    def local(instant: datetime) -> str:
        try:
            return instant.astimezone(shown_in).isoformat()
        except OverflowError:  # there it is the year 10000
            return instant.isoformat()

    columns: Columns[NextRunLine] = {
        "INTERVAL START": lambda c: local(c.data_interval_start),
        "INTERVAL END": lambda c: local(c.data_interval_end),
        "RUN AFTER": lambda c: local(c.run_after),
        "NOTE": lambda c: c.note,
    }
    condition = condition_of(spec.timetable)
    if spec.defaults_of:
        talk(f"{dag_id} has the defaults of {spec.defaults_of}: see core.airflow_defaults if that is wrong")
    if condition is not None:
        talk(f"{dag_id} {'also ' if coming else ''}runs after new events of {condition}")
    show_list(coming, columns, output, empty=f"DAG {dag_id!r} has no upcoming scheduled run")


def _from_files(dag_id: str, dags: Path) -> tuple[DagSpec, SchedulePosition]:
    from aiosched.core.creation.next_run import SchedulePosition

    with contextlib.redirect_stdout(sys.stderr):
        return find_dag(dag_id, load(core__dags_folder=dags).settings).to_spec(), SchedulePosition()


async def _from_database(dag_id: str, dsn: str | None, now: datetime) -> tuple[DagSpec, SchedulePosition]:
    from aiosched.db.queries.queries import get_dag, get_spec
    from aiosched.db.statements.schedules import schedule_positions

    async with open_database(load(database__dsn=dsn).settings) as db:
        if (await get_dag(db, dag_id)).is_paused:
            talk(f"{dag_id} is paused: no run is made before an unpause")
        spec = await get_spec(db, dag_id)
        async with db.acquire() as conn:
            return spec, (await schedule_positions(conn, [spec], now))[dag_id]


# ---- check ----


@dataclass(frozen=True, slots=True)
class FileCheck:
    """The result for one file."""

    file: str
    dags: tuple[str, ...]
    seconds: float
    warnings: tuple[str, ...]
    error: FileError | None

    @property
    def status(self) -> str:
        return "ok" if self.error is None else "error"


_CHECK_COLUMNS: Final[Columns[FileCheck]] = {
    "FILE": lambda c: c.file,
    "STATUS": lambda c: c.status,
    "DAGS": lambda c: c.dags,
    "TIME": lambda c: duration(c.seconds),
}


def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Files and folders; default: the DAGs folder, or the bundles."),
    ] = None,
    dags: DagsFolder = None,
    output: Output = None,
) -> None:
    """Parse DAG files as the scheduler does and show errors, warnings and times; exit 1 on an error.

    What has no effect in plugins and cluster policies of the project is named, too.
    """
    settings = load(core__dags_folder=dags).settings
    wanted = paths or ([] if settings.dags.bundles else [settings.core.dags_folder])
    for path in wanted:
        if not path.exists():
            raise NotFound(f"There is no {shown_path(path)}.")
    results, plugins = asyncio.run(_parsed_beside_plugins(wanted, settings))
    found = [_checked(parsed) for parsed in results]
    show_list(found, _CHECK_COLUMNS, output, empty="no DAG files here")
    for one in plugins:
        talk(f"{'error' if one.is_error else 'warning'}: plugins: {one.text}")
    if chosen(output) in (Format.TABLE, Format.PLAIN):
        _report_details(found)
    if wrong := sum(1 for checked in found if checked.error):
        talk(f"{wrong} of {len(found)} files have errors")
        raise typer.Exit(1)


async def _parsed_beside_plugins(paths: list[Path], settings: Settings) -> tuple[list[ParsedFile], list[PluginFinding]]:
    from aiosched.parsing.plugin_findings import find_plugins

    results, plugins = await asyncio.gather(_parsed(paths, settings), find_plugins(settings))
    return results, [] if plugins is None else plugins.findings


async def _parsed(paths: list[Path], settings: Settings) -> list[ParsedFile]:
    """The outcomes of parsing, with warnings of pools that do not exist, if there is a database that knows them."""
    from aiosched.core.graph.spec import DEFAULT_POOL
    from aiosched.db.statements.dags import known_pools
    from aiosched.parsing.claims import at_first_sight, pool_warnings

    now = datetime.now(UTC)
    results = [at_first_sight(result, now) for result in await parse(paths, settings)]
    used = {pool for result in results for dag in result.dags for pool in dag.pools} - {DEFAULT_POOL}
    if not used or not has_database(settings):
        return results
    try:
        async with open_database(settings) as db, db.acquire() as conn:
            known = {DEFAULT_POOL, *await known_pools(conn, used)}
    except DatabaseError as error:
        talk(f"warning: whether there are the pools {', '.join(sorted(used))} is unknown: {error}")
        return results
    return [
        msgspec.structs.replace(result, warnings=(*result.warnings, *pool_warnings(result.dags, known)))
        for result in results
    ]


def _checked(parsed: ParsedFile) -> FileCheck:
    ids = tuple(dag.dag_id for dag in parsed.dags)
    return FileCheck(parsed.name, ids, parsed.seconds, parsed.warnings, parsed.error)


def _report_details(found: list[FileCheck]) -> None:
    for checked in found:
        for warning in checked.warnings:
            talk(f"warning: {checked.file}: {warning}")
        if checked.error is not None:
            talk(f"\n{_where(checked.file, checked.error)}")
            if details := checked.error.code_frame or checked.error.traceback:
                talk("\n".join(f"    {line}" for line in details.rstrip().splitlines()))
