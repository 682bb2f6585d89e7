"""`tasks test`: run a task in this process, without a scheduler."""

from __future__ import annotations

from typing import Annotated

import typer

from aiosched.cli.base.options import Conf, DagId, DagsFolder, Output, Param, TaskId
from aiosched.cli.dags import dag_files


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
