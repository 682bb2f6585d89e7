"""`tasks test` and `tasks render`: run or inspect a task in this process, without a scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aiosched.cli.base.options import Conf, DagId, DagsFolder, Dsn, Output, Param, RunRef, TaskId
from aiosched.cli.base.output import show_one
from aiosched.cli.base.session import load_for_author_code, open_database
from aiosched.cli.dags import dag_files
from aiosched.errors import NotFound

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG
    from aiosched.config import Settings
    from aiosched.core.values.messages import Attempt
    from aiosched.db.server.engine import Database

MapIndex = Annotated[
    int | None, typer.Option("--map-index", metavar="N", help="The instance of a mapped task.", show_default=False)
]


def try_task(
    dag_id: DagId,
    task_id: TaskId,
    date: Annotated[
        str | None, typer.Argument(metavar="DATE", help="The run's logical date; UTC without a zone.")
    ] = None,
    param: Param = None,
    conf: Conf = None,
    dags: DagsFolder = None,
    output: Output = None,
) -> None:
    """Run one task in this process, without a database and without its upstream tasks; exit 1 if it fails."""
    dag_files.run_once(dag_id, date, param=param, conf=conf, task=task_id, mock=None, dags=dags, output=output)


def render(
    dag_id: DagId,
    run: RunRef,
    task_id: TaskId,
    map_index: MapIndex = None,
    dags: DagsFolder = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Show the template fields of a task as they are in a run, without running it; secrets are masked."""
    loaded = load_for_author_code(core__dags_folder=dags, database__dsn=dsn)

    async def work() -> dict[str, Any]:
        from aiosched.backends.kinds import backends_of
        from aiosched.db.crypto.keyring import Keyring
        from aiosched.executors.dag_test.preview import rendered_fields
        from aiosched.scheduler.services.secret_services import secret_services
        from aiosched.scheduler.services.task_services import SERVICES, DatabaseServices

        with contextlib.redirect_stdout(sys.stderr):  # what the DAG file prints goes to stderr
            async with open_database(loaded.settings) as db:
                dag = await _dag_of_run(db, dag_id, run, loaded.settings)
                attempt = await _attempt(db, dag_id, run, task_id, map_index)
                secrets = secret_services(Keyring.of(loaded.settings), backends_of(loaded.settings))
                services = DatabaseServices(db, {**SERVICES, **secrets})
                return await rendered_fields(dag, attempt, services)

    fields = asyncio.run(work())
    show_one(fields, output, data=fields)


async def _dag_of_run(db: Database, dag_id: str, run: str, settings: Settings) -> DAG:
    """The DAG as the attempts of a run load it."""
    from aiosched.bundles.kinds import places_of
    from aiosched.bundles.names import path_in
    from aiosched.db.queries.queries import find_run
    from aiosched.db.queries.version_queries import get_version
    from aiosched.parsing.bundle_keeper import BundleKeeper

    if not settings.dags.bundles and not settings.dags.pin_code:
        return dag_files.find_dag(dag_id, settings)
    version = await get_version(db, dag_id, (await find_run(db, dag_id, run)).version)
    root = places_of(settings).path((version.bundle, version.bundle_version))
    if version.bundle_version is None or root is None or version.file is None:
        return await asyncio.to_thread(dag_files.find_dag, dag_id, settings)
    await BundleKeeper(settings, db).prepare(version.bundle, version.bundle_version)
    return dag_files.load_dag(dag_id, root, path_in(version.bundle, version.file), settings)


async def _attempt(db: Database, dag_id: str, run: str, task_id: str, map_index: int | None) -> Attempt:
    """The newest attempt of a task in a run. Raises NotFound."""
    from aiosched.core.values.messages import Attempt, AttemptKey, RunInfo
    from aiosched.db.queries.queries import find_run, list_run_tasks

    found = await find_run(db, dag_id, run)
    instances = await list_run_tasks(db, found, task_id=task_id, limit=10_000)
    chosen = [task for task in instances if map_index in (None, task.map_index)]
    if not chosen:
        which = task_id if map_index is None else f"{task_id}[{map_index}]"
        raise NotFound(f"Run {found.run_id} of {dag_id} has no instance of {which}.")
    if len(chosen) > 1:
        raise NotFound(f"{task_id} is mapped: choose one of its {len(chosen)} instances with --map-index.")
    (task,) = chosen
    info = RunInfo(
        key=found.key,
        dag_id=dag_id,
        run_id=found.run_id,
        run_type=found.run_type,
        run_after=found.run_after,
        logical_date=found.logical_date,
        interval_start=found.data_interval_start,
        interval_end=found.data_interval_end,
        start_date=found.start_date or found.run_after,
        conf=found.conf,
        version=found.version,
        partition_key=found.partition_key,
        partition_date=found.partition_date,
    )
    key = AttemptKey(found.key, task.task_index, task.map_index, max(task.try_number, 1))
    return Attempt(key=key, run=info, task_id=task_id, is_async=False, max_tries=task.max_tries)
