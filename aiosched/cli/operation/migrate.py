"""`aiosched migrate airflow`: what becomes of an Airflow here, and taking its data over.

Without `--apply` nothing is changed. The rules are in aiosched/migration; docs/migration.md shows the way of a team.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aiosched.cli.base.file_values import MoreValues, parse
from aiosched.cli.base.options import Dsn, Output, UsageProblem
from aiosched.cli.base.output import STRUCTURED, Columns, Format, chosen, counted, show_data, show_list, talk, write
from aiosched.cli.base.session import address, load, open_database, requester

if TYPE_CHECKING:
    from aiosched.config import Loaded, Settings
    from aiosched.migration.cfg import CfgLine
    from aiosched.migration.files import FileVerdict
    from aiosched.migration.planning import MigrationPlan, MigrationStep
    from aiosched.migration.report import MigrationReport
    from aiosched.parsing.result import ParsedFile

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Move from Airflow."
)

_FILES: Final[Columns[FileVerdict]] = {
    "FILE": lambda one: one.file,
    "VERDICT": lambda one: one.verdict,
    "DAGS": lambda one: len(one.dags),
    "FIRST": lambda one: one.remedy,
}
_FOR_READING: Final = (  # settings with which DAG files are found and read
    "core.airflow_defaults", "core.dag_discovery_safe_mode", "core.dag_ignore_file_syntax", "core.default_timezone",
    "core.dagbag_import_timeout", "core.plugins_folder", "parsing.file_timeout", "scheduler.catchup_by_default",
)  # fmt: skip
_STEPS: Final[Columns[MigrationStep]] = {
    "KIND": lambda step: step.kind,
    "NAME": lambda step: step.name,
    "RESULT": lambda step: step.outcome,
    "WHY": lambda step: step.why,
}


@app.callback()
def group() -> None:
    """Move from Airflow."""


@app.command()
def airflow(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Airflow's DAGs folder.", show_default=False)],
    database: Annotated[
        str | None,
        typer.Option("--database", metavar="URL", help="Airflow's metadata database; only read.", show_default=False),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="airflow.cfg: its settings are translated; default: that above the folder, or in `config` there.",
            show_default=False,
        ),
    ] = None,
    fernet_key: Annotated[
        list[str] | None,
        typer.Option("--fernet-key", metavar="KEY", help="Airflow's Fernet key; default: from its configuration."),
    ] = None,
    dag: Annotated[
        list[str] | None, typer.Option("--dag", metavar="DAG", help="Only this DAG; can be repeated.")
    ] = None,
    unpause: Annotated[
        bool, typer.Option("--unpause", help="Unpause the DAGs here: they are paused in Airflow now.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace variables, connections and pools that are different here.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the report as an HTML page, too.", show_default=False),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply/--dry-run", help="Store it; default: only show it.")] = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Show which DAG files run here and what becomes of settings and data; with --apply take the data over.

    Safe to repeat. Exit 1 if something could not be taken over.
    """
    from aiosched.config.project import folders_above
    from aiosched.core.creation.first_sight import is_held_back
    from aiosched.migration.cfg import (
        fernet_keys,
        from_environment,
        given_in_files,
        metadata_url,
        on_this_machine,
        read_cfg,
        translate,
    )
    from aiosched.migration.files import judge_files
    from aiosched.migration.generation import generation_of
    from aiosched.migration.missing import ProjectModules
    from aiosched.migration.page import as_html
    from aiosched.migration.planning import plan_migration
    from aiosched.migration.reading import read_airflow
    from aiosched.migration.report import MigrationReport, caught_up, differences_of, todo_of
    from aiosched.migration.values import AirflowKeys
    from aiosched.parsing.claims import at_first_sight
    from aiosched.parsing.plugin_findings import find_plugins

    if not folder.is_dir():
        raise UsageProblem(f"{folder} is not a folder; name the folder that dags_folder has in airflow.cfg.")
    if apply and database is None:
        raise UsageProblem("--apply takes data over: name Airflow's metadata database with --database.")
    if config is None:
        around = [above / place / "airflow.cfg" for above in folders_above(folder) for place in ("", "config")]
        config = next((file for file in around if file.is_file()), None)
    cfg = from_environment(os.environ) if config is None else read_cfg(config, os.environ)
    rows = None if database is None else asyncio.run(read_airflow(database, dag_ids=dag))
    generation = generation_of(cfg, folder, database=None if rows is None else rows.generation)
    lines = [*on_this_machine(translate(cfg), folder), *(generation.settings(cfg) if generation else ())]
    loaded = load(core__dags_folder=folder, database__dsn=dsn)
    settings = loaded.settings if apply else load(**_as_proposed(lines, loaded), database__dsn=dsn).settings
    keys = AirflowKeys([*(fernet_key or ()), *fernet_keys(cfg)])
    more = None if rows is None else MoreValues(plan_migration(rows, keys, here=()).values, is_first=overwrite)
    parsed = asyncio.run(parse([folder], settings, more))
    now = datetime.now(UTC)
    held = {dag.dag_id for file in parsed for dag in file.dags if dag.catchup_is_guess and is_held_back(dag.spec, now)}
    steps: list[MigrationStep] = []
    if rows is not None:
        here = {dag.dag_id for file in parsed for dag in file.dags}
        plan = plan_migration(rows, keys, here=here, unpause=unpause, wanted=dag or (), held_back=held)
        steps = asyncio.run(_take_over(plan, loaded.settings, parsed, apply=apply, overwrite=overwrite))
    elif metadata_url(cfg) is not None:
        talk("Airflow's configuration names its database: --database with the address shows what would be taken over")
    verdicts = judge_files((at_first_sight(one, now) for one in parsed), ProjectModules(folder))
    positions = [] if rows is None else [dag.dag_id for dag in rows.dags if dag.last is not None]
    past = caught_up(parsed, positions, now)
    plugins = asyncio.run(find_plugins(settings, folder))
    differences = differences_of(cfg, [one.text for one in plugins.findings] if plugins else (), lines, generation)
    todo = todo_of(verdicts, lines, steps, past, generation, given_in_files(folder, cfg))
    report = MigrationReport(apply, generation, verdicts, todo, differences, past, lines, steps)
    _show(report, output)
    if html is not None:
        try:
            html.write_text(as_html(report, str(folder)), encoding="utf-8")
        except OSError as error:
            raise UsageProblem(f"--html: {html} cannot be written: {error.strerror}.") from None
    if apply and any(step.outcome == "left" for step in steps):
        raise typer.Exit(1)


def _as_proposed(lines: Sequence[CfgLine], loaded: Loaded) -> dict[str, Any]:
    """The flags for reading DAG files as with the settings that the report proposes; what is set here stays."""
    proposed = {line.key: line.value for line in lines if line.fate == "set" and line.key is not None}
    return {
        key.replace(".", "__"): proposed[key]
        for key in _FOR_READING
        if key in proposed and loaded.origins[key].source == "default"
    } | {"core__dags_folder": loaded.settings.core.dags_folder}


async def _take_over(
    plan: MigrationPlan, settings: Settings, parsed: Sequence[ParsedFile], *, apply: bool, overwrite: bool
) -> list[MigrationStep]:
    from aiosched.db.crypto.keyring import Keyring
    from aiosched.db.server.engine import address_of_sessions
    from aiosched.db.server.migrate import migrate
    from aiosched.migration.applying import Migration
    from aiosched.migration.planning import StoredHere, preview

    slots = settings.core.default_pool_task_slot_count
    if not apply and settings.database.dsn is None and not settings.core.home.exists():
        return preview(plan, StoredHere({}, {}, {}, slots), overwrite=overwrite)  # there is no database yet
    if apply:
        async with address(settings, create=True) as where:
            await migrate(address_of_sessions(where, settings.database), default_pool_slots=slots)
    async with open_database(settings) as db:
        migration = Migration(db, Keyring.of(settings), requester(), slots, overwrite)
        return await (migration.apply(plan, parsed, now=datetime.now(UTC)) if apply else migration.preview(plan))


def _show(report: MigrationReport, output: Format | None) -> None:
    from aiosched.migration.cfg import as_toml
    from aiosched.migration.planning import counted as of_steps
    from aiosched.migration.planning import nothing_done
    from aiosched.parsing.other_folders import listed

    if chosen(output) in STRUCTURED:
        show_data(report, chosen(output))
        return
    show_list(report.files, _FILES, output, empty="no DAG files here", sentences=1)
    for one in report.files:
        for line in one.details:
            talk(f"{one.file}: {line}")
    verdicts = [str(one.verdict) for one in report.files]
    talk(", ".join(f"{each}: {counted(verdicts.count(each), 'file')}" for each in dict.fromkeys(verdicts)))
    if report.generation is not None:
        talk(f"made for Airflow {report.generation.number} ({report.generation.why})")
    for difference in report.differences:
        talk(f"different without an error: {difference.what}: {difference.why}")
    _show_settings(report.settings)
    if report.settings:
        write(as_toml(list(report.settings)))
    if report.steps:
        show_list(report.steps, _STEPS, output, empty="nothing to take over", sentences=1)
        for kind, outcomes in of_steps(report.steps).items():
            talk(f"{kind}: {_numbers(outcomes)}")
    for number, each in enumerate(report.todo, 1):
        about = f" ({listed(each.about)})" if each.about else ""
        talk(f"{number}. {each.effort}: {each.text}{about}")
    if not report.steps:
        return
    if not report.applied:
        talk("nothing was changed: --apply does it")
    elif nothing_done(report.steps):
        talk("nothing was left to do: nothing was changed")


def _show_settings(lines: Sequence[CfgLine]) -> None:
    for line in lines:
        if line.fate not in ("set", "default"):
            talk(f"[{line.section}] {line.option}: {line.fate}: {line.note}")


def _numbers(outcomes: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
