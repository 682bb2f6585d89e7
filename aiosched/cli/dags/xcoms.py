"""`aiosched tasks xcoms`: the values that a task instance pushed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aiosched.cli.base.options import DagId, Dsn, MapIndex, Output, RunRef, TaskId
from aiosched.cli.base.output import STRUCTURED, Columns, report, show_list, write
from aiosched.cli.base.session import load, with_database
from aiosched.config import hide_password
from aiosched.core.values.ids import read_instance_name
from aiosched.core.values.typed_json import readable_text
from aiosched.errors import NotFound

if TYPE_CHECKING:
    from aiosched.config import Settings
    from aiosched.db.queries.xcom_queries import XComListRow
    from aiosched.db.server.engine import Database

_LONGEST: Final = 1_000  # characters of a value in the list
_COLUMNS: Final[Columns[XComListRow]] = {
    "KEY": lambda row: row.key,
    "BYTES": lambda row: row.size,
    "VALUE": lambda row: readable_text(row.value) if row.url is None else row.url,
    "PUSHED": lambda row: row.created_at,
}


def show_xcoms(
    dag_id: DagId,
    run: RunRef,
    task_id: TaskId,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="Write the JSON of this one, in full.", show_default=False),
    ] = None,
    map_index: MapIndex = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Show the XComs of a task instance: each with its size, and its value or where this is in remote storage."""
    from aiosched.db.queries.queries import find_run, list_run_tasks
    from aiosched.db.queries.xcom_queries import list_xcoms

    async def read(db: Database) -> list[XComListRow]:
        found = await find_run(db, dag_id, run)
        name, index = read_instance_name(task_id, map_index)
        tasks = await list_run_tasks(db, found, task_id=name, limit=10_000)
        task = next((task for task in tasks if task.map_index == (-1 if index is None else index)), None)
        if task is None:
            hint = f"; choose one of its {len(tasks)} instances with --map-index" if tasks else ""
            raise NotFound(f"Run {found.run_id} of {dag_id} has no instance {name}[{index}]{hint}.")
        instance = (found.key, task.task_index, task.map_index)
        return await list_xcoms(db, instance, longest=2**30 if key else _LONGEST, key=key, limit=10_000)

    rows = with_database(dsn, read)
    settings = load(database__dsn=dsn).settings
    base = hide_password((settings.xcom.remote or "").rstrip("/"))
    rows = [row if row.path is None else replace(row, url=f"{base}/{row.path}") for row in rows]
    if key is None:
        show_list(rows, _COLUMNS, output, empty="no XComs")
        return
    if not rows:
        raise NotFound(f"{task_id} has no XCom {key!r}.")
    text = _content(rows[0], settings)
    if output in STRUCTURED:
        report({"key": key, "size": rows[0].size, "value": text, "url": rows[0].url}, output)
    else:
        write(text)


def _content(row: XComListRow, settings: Settings) -> str:
    from aiosched.core.values.messages import XComPlace
    from aiosched.errors import RemoteStorageError
    from aiosched.remote.values import XComStore, remote_xcoms

    if row.path is None:
        return row.value
    remote = remote_xcoms(settings.xcom)
    if remote is None:
        raise RemoteStorageError(
            f"The XCom is in remote storage, as {row.path}, but xcom.remote is not set here: set it as it was."
        )
    return XComStore(remote).read(XComPlace(row.path, row.size))
