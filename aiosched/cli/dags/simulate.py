"""`aiosched simulate`: what would run when, and which pool or limit would be the bottleneck."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aiosched.cli.base.file_values import parse
from aiosched.cli.base.options import DagsFolder, Dsn, Output, UsageProblem, read_instant
from aiosched.cli.base.output import Columns, Format, chosen, duration, instant, show_data, show_list, talk
from aiosched.cli.base.progress import Progress
from aiosched.cli.base.session import load, open_database, shown_path
from aiosched.core.graph.spec import DEFAULT_POOL
from aiosched.errors import DagError, NotFound, did_you_mean

if TYPE_CHECKING:
    from aiosched.config import Settings
    from aiosched.core.graph.spec import DagSpec
    from aiosched.testing.simulation import DagFigures, PoolFigures, SimulatedRun, Simulation

app: typer.Typer = typer.Typer(rich_markup_mode=None, add_completion=False)

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DAGS_PER_PAGE: Final = 1000


class DurationOption(StrEnum):
    """The source of task durations."""

    HISTORY = "history"
    DEFAULT = "default"


@dataclasses.dataclass(frozen=True, slots=True)
class SimulationInput:
    """The input of a simulation."""

    specs: list[DagSpec]
    pools: dict[str, int]
    durations: dict[tuple[str, str], timedelta]
    rates: dict[str, str]  # of pools


_DAG_COLUMNS: Final[Columns[DagFigures]] = {
    "DAG": lambda d: d.dag_id,
    "RUNS": lambda d: d.runs,
    "TASKS": lambda d: d.tasks,
    "LATE BY": lambda d: duration(d.late) if d.late else None,
    "WAITED": lambda d: duration(d.waiting) if d.waiting else None,
    "LONGEST": lambda d: duration(d.longest_wait) if d.longest_wait else None,
    "HELD UP BY": lambda d: d.held_up_by and d.held_up_by.removeprefix(f"DAG {d.dag_id!r} "),
}

_POOL_COLUMNS: Final[Columns[PoolFigures]] = {
    "POOL": lambda p: p.pool,
    "SLOTS": lambda p: "infinite" if p.slots < 0 else p.slots,
    "PEAK": lambda p: p.peak,
    "BUSY": lambda p: None if p.busy is None else f"{p.busy:.0%}",
    "TASKS": lambda p: p.tasks,
    "WAITED": lambda p: duration(p.waiting) if p.waiting else None,
    "LONGEST": lambda p: duration(p.longest_wait) if p.longest_wait else None,
}

_RUN_COLUMNS: Final[Columns[SimulatedRun]] = {
    "DUE": lambda r: instant(r.run_after),
    "DAG": lambda r: r.dag_id,
    "RUN": lambda r: r.run_id,
    "STARTS": lambda r: instant(r.start) if r.start else None,
    "ENDS": lambda r: instant(r.end) if r.end else None,
}


@app.command()
def simulate(
    first: Annotated[
        str, typer.Option("--from", metavar="DATE", help="The start of the simulation; UTC without a zone.")
    ],
    last: Annotated[str, typer.Option("--to", metavar="DATE", help="The instant at which it ends.")],
    dag_ids: Annotated[
        list[str] | None, typer.Argument(metavar="DAG", help="DAG ids; default: all.", show_default=False)
    ] = None,
    dags: DagsFolder = None,
    task_duration: Annotated[
        str, typer.Option("--task-duration", metavar="SPAN", help="Duration of tasks without a history: 30s, 5m, 2h.")
    ] = "1m",
    durations: Annotated[
        DurationOption,
        typer.Option("--durations", help="Averages of the latest runs in the database, or only --task-duration."),
    ] = DurationOption.HISTORY,
    pool: Annotated[
        list[str] | None, typer.Option("--pool", metavar="NAME=SLOTS", help="Assume this number of slots in a pool.")
    ] = None,
    parallelism: Annotated[
        int | None, typer.Option("--parallelism", min=1, metavar="N", help="Default: the setting.", show_default=False)
    ] = None,
    runs: Annotated[bool, typer.Option("--runs", help="List every run with its start and end.")] = False,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Seed for the order of events at the same instant.")
    ] = 0,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Show what would run when, without running it, and which pool or limit is the bottleneck.

    Uses the real scheduling code with a virtual clock. DAGs, pools and durations come from the database, or with --dags
    from a folder of DAG files. Every task succeeds.
    """
    from aiosched.testing.simulation import simulate as run_simulation

    begin, end = read_instant(first, "--from"), read_instant(last, "--to")
    if end <= begin:
        raise UsageProblem(f"--to {last} is not later than --from {first}.")
    span = read_span(task_duration, "--task-duration")
    pool_sizes = dict(_pool_size(text) for text in pool or ())
    settings = load(core__dags_folder=dags, database__dsn=dsn).settings
    wanted = list(dag_ids or ())
    if dags is not None:
        given = _from_files(wanted, settings)
    else:
        given = asyncio.run(_from_database(wanted, settings, durations))
    progress = Progress()

    def reached(at: datetime) -> None:
        progress.show(lambda: f"simulated up to {instant(at)} ({(at - begin) / (end - begin):.0%})")

    try:
        result = asyncio.run(
            run_simulation(
                given.specs,
                begin,
                end,
                pools=given.pools | pool_sizes,
                rates=given.rates,
                task_duration=span,
                durations=given.durations,
                parallelism=parallelism or settings.core.parallelism,
                seed=seed,
                listener=reached,
            )
        )
    except OverflowError as error:
        raise UsageProblem(f"--from {first} --to {last} is at the edge of the calendar: give other dates.") from error
    progress.end()
    _show(result, runs, output)


def _show(result: Simulation, runs: bool, output: Format | None) -> None:
    if chosen(output) in (Format.JSON, Format.YAML):
        show_data(dataclasses.asdict(result) | {"bottleneck": result.bottleneck}, chosen(output))
    elif runs:
        ordered = sorted(result.runs, key=lambda run: (run.start or result.end, run.dag_id, run.run_after))
        show_list(ordered, _RUN_COLUMNS, output, empty="no run would start")
    else:
        show_list([dag for dag in result.dags if dag.runs], _DAG_COLUMNS, output, empty="no DAG would run")
        if chosen(output) is Format.TABLE:
            typer.echo()
        show_list(result.pools, _POOL_COLUMNS, output, empty="no pool would be used")
    for problem in result.problems:
        talk(f"left out: {problem}")
    if not runs and chosen(output) is Format.TABLE and result.runs:
        talk("--runs lists when each run starts and ends")
    if result.bottleneck is None:
        talk("nothing would wait: no pool and no limit is a bottleneck")
    else:
        talk(f"bottleneck: {result.bottleneck} (waiting {duration(result.limits[result.bottleneck])} in all)")


def read_span(text: str, option: str) -> timedelta:
    """`90s`, `5m`, `2h`, `1d`; seconds without a unit. Raises UsageProblem."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if found is None:
        raise UsageProblem(f"{option} {text}: write a duration as 30s, 5m or 2h.")
    try:
        return timedelta(seconds=float(found[1]) * _UNITS[found[2] or "s"])
    except OverflowError:
        raise UsageProblem(f"{option} {text} is too long: choose a shorter time.") from None


def _pool_size(text: str) -> tuple[str, int]:
    name, equals, slots = text.partition("=")
    if not name or not equals or not re.fullmatch(r"-1|\d+", slots):
        raise UsageProblem(f"--pool {text}: write it as etl=4; -1 is infinite.")
    return name, int(slots)


def _from_files(wanted: list[str], settings: Settings) -> SimulationInput:
    folder: Path = settings.core.dags_folder
    if not settings.dags.bundles and not folder.is_dir():
        raise NotFound(f"There is no {shown_path(folder)}.")
    parsed = asyncio.run(parse([], settings))
    specs = {dag.dag_id: dag.spec for file in parsed for dag in file.dags}
    broken = [file for file in parsed if file.error is not None]
    for file in broken:
        talk(f"left out: {file.name} cannot be imported; see `aiosched dags check`")
    for dag_id in wanted:
        if dag_id not in specs:
            raise NotFound(f"No file in {shown_path(folder)} defines the DAG {dag_id!r}.{did_you_mean(dag_id, specs)}")
    if broken and not specs:
        raise DagError(f"No DAG file in {shown_path(folder)} can be imported; see `aiosched dags check`.")
    chosen_specs = [spec for dag_id, spec in sorted(specs.items()) if not wanted or dag_id in wanted]
    return SimulationInput(chosen_specs, {DEFAULT_POOL: settings.core.default_pool_task_slot_count}, {}, {})


async def _from_database(wanted: list[str], settings: Settings, durations: DurationOption) -> SimulationInput:
    from aiosched.db.lists.dag_lists import list_dags
    from aiosched.db.people.pools import list_pools
    from aiosched.db.queries.queries import get_spec
    from aiosched.db.queries.run_queries import average_durations

    async with open_database(settings) as db:
        ids = list(wanted)
        after: tuple[str, None] | None = None
        while not wanted:
            page: list[Any] = await list_dags(db, after=after, limit=_DAGS_PER_PAGE)
            ids += [row.dag_id for row in page if not row.is_paused]
            if len(page) < _DAGS_PER_PAGE:
                break
            after = page[-1].dag_id, None
        specs = [await get_spec(db, dag_id) for dag_id in ids]
        all_pools = await list_pools(db)
        history: dict[tuple[str, str], timedelta] = {}
        if durations is DurationOption.HISTORY:
            async with db.acquire() as conn:
                history = await average_durations(conn, ids)
    pools = {pool.name: pool.slots for pool in all_pools}
    return SimulationInput(specs, pools, history, {pool.name: pool.rate for pool in all_pools if pool.rate is not None})
