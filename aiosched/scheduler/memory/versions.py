"""The DAG versions that are held: loaded once when a run or a DAG needs them, forgotten when nothing does.

A run keeps its version. Its attempts run the code of its DAG's newest one (decision 22), or that of its own version if
this belongs to a version of a bundle (decision 33). Source: the semantics reference, section 31.3.

An unreadable version (written by a newer aiosched, or corrupt) stops nothing else. It is logged once. A DAG whose
newest version is unreadable gets no runs until there is a readable one: it is not held, or keeps the version that it is
held with. Runs of an unreadable version are left alone in the database, for a scheduler that can read them.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from aiosched.core.graph.instances import Run
from aiosched.core.run.board import Board
from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import RunInfo
from aiosched.db.statements.runs import StoredVersion, UnreadableVersion
from aiosched.errors import Refused, UnreadableRow

logger: logging.Logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Unreadable:
    """The versions that could not be read, and the DAGs and runs that are left alone because of them."""

    versions: dict[int, UnreadableVersion] = field(default_factory=dict)
    dags: dict[str, int] = field(default_factory=dict)  # DAGs, and their newest version
    runs: dict[int, str] = field(default_factory=dict)  # unfinished runs that are not held, and their DAGs
    errors: dict[int, UnreadableRow] = field(default_factory=dict)  # why, for runs with other rows that are unreadable

    def forget(self, partitions: Container[int]) -> None:
        """These partitions are not ours any more."""
        self.dags = {dag_id: key for dag_id, key in self.dags.items() if partition_of(dag_id) not in partitions}
        self.runs = {key: dag_id for key, dag_id in self.runs.items() if partition_of(dag_id) not in partitions}
        self.errors = {key: why for key, why in self.errors.items() if key in self.runs}

    def texts(self) -> Iterator[str]:
        """What is left alone now, in words, with the reasons: versions first, then runs with other rows."""
        newest, with_runs = {*self.dags.values()}, {*self.runs.values()}
        for version in self.versions.values():
            if version.id in newest or version.dag_id in with_runs:
                yield str(version)
        for key, why in self.errors.items():
            if key in self.runs:
                yield f"a run of DAG {self.runs[key]!r} (key {key}): {why}"

    def refuse(self, versions: Iterable[int]) -> None:
        """Raise Refused if one of the versions is unreadable."""
        for key in versions:
            if key in self.versions:
                raise Refused(str(self.versions[key]))

    def refuse_run(self, run: Run) -> None:
        """Raise Refused for a run that is left alone because it cannot be read."""
        self.refuse([run.version_id])
        if run.key in self.errors:
            raise self.errors[run.key]

    def refuse_dag(self, dag_id: str | None) -> None:
        """Raise Refused for a DAG whose newest version cannot be read."""
        if dag_id in self.dags:
            self.refuse([self.dags[dag_id]])


def run_info(
    run: Run,
    version: StoredVersion | UnreadableVersion,
    newest: StoredVersion | None = None,
    *,
    team: str | None = None,
) -> RunInfo:
    """The run as the context of its attempts shows it, with the code that they are to run.

    The code is that of its own version if this belongs to a version of a bundle, else that of its DAG's `newest` one.
    `team` is that of its DAG; a board gets it from the DAG that is held.
    """
    code = version if newest is None or version.bundle_version is not None else newest
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
        bundle=code.bundle,
        bundle_version=code.bundle_version,
        partition_key=run.partition_key,
        partition_date=run.partition_date,
        traceparent=run.traceparent,
        team=team,
    )


def renew_code(board: Board, newest: StoredVersion) -> None:
    """Have attempts of the run that start from now on run the code of this version, unless it keeps its own."""
    if board.info.bundle_version is not None and board.info.code_version is None:
        return
    number = None if board.info.version == newest.number else newest.number
    code = {"file": newest.file, "source_hash": newest.source_hash, "modules": newest.modules}
    code |= {"bundle": newest.bundle, "bundle_version": newest.bundle_version}
    board.info = msgspec.structs.replace(board.info, code_version=number, **code)
    board.code.newest, board.code.version_id = newest.source_hash, newest.id


def set_team(board: Board, team: str | None) -> None:
    """Have attempts of the run that start from now on run in processes of this team."""
    if board.info.team != team:
        board.info = msgspec.structs.replace(board.info, team=team)
