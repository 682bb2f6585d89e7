"""The DAG versions that are held: read once, when a run or a DAG needs them, and forgotten when nothing does any more.

A run keeps its version; the code that its attempts run is that of its DAG's newest one (decision 22).

Nothing stops because a stored version cannot be read: a newer aiosched wrote it, or it is broken. The log tells of it
once. A DAG whose newest version it is gets no runs until there is one that can be read: it is not held, or goes on with
the version that it is held with. Runs of it are left alone in the database, for a scheduler that can read them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from aiosched.core.graph.instances import Run
from aiosched.core.run.board import Board
from aiosched.core.values.messages import RunInfo
from aiosched.db.statements.runs import StoredVersion, UnreadableVersion
from aiosched.errors import Refused

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Unreadable:
    """The versions that could not be read, and what is left alone because of them."""

    versions: dict[int, UnreadableVersion] = field(default_factory=dict)
    dags: dict[str, int] = field(default_factory=dict)  # DAGs, and their newest version
    runs: dict[int, Run] = field(default_factory=dict)  # unfinished ones that are not held

    def refuse(self, versions: Iterable[int]) -> None:
        """Raise Refused when one of the versions is among these."""
        for key in versions:
            if key in self.versions:
                raise Refused(str(self.versions[key]))

    def refuse_dag(self, dag_id: str | None) -> None:
        """Raise Refused for a DAG whose newest version cannot be read."""
        if dag_id in self.dags:
            self.refuse([self.dags[dag_id]])


def run_info(run: Run, version: StoredVersion | UnreadableVersion, newest: StoredVersion | None = None) -> RunInfo:
    """The run as its attempts' context shows it, with the code of its DAG's `newest` version."""
    code = newest or version
    return RunInfo(
        key=run.key,
        dag_id=run.dag_id,
        run_id=run.run_id,
        run_type=run.run_type,
        run_after=run.run_after,
        logical_date=run.logical_date,
        interval_start=run.interval_start,
        interval_end=run.interval_end,
        start_date=run.start_date,
        conf=run.conf,
        version=version.number,
        file=code.file,
        source_hash=code.source_hash,
        modules=code.modules,
        code_version=None if code.number == version.number else code.number,
    )


def renew_code(board: Board, newest: StoredVersion) -> None:
    """Attempts of the run that start from now on run the code of this version."""
    number = None if board.info.version == newest.number else newest.number
    code = {"file": newest.file, "source_hash": newest.source_hash, "modules": newest.modules}
    board.info = msgspec.structs.replace(board.info, code_version=number, **code)
    board.code.newest, board.code.version_id = newest.source_hash, newest.id
