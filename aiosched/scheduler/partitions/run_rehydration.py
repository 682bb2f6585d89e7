"""What a loaded board needs besides its run and instance rows: map lengths, branch decisions, code of past tries.

A branch's decision and a value that tasks are mapped over are XComs. Does not live here:
the previous run (previous_run.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from aiosched.core.run.board import SKIPPED_DOWNSTREAM, Board, Run
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements import rehydration
from aiosched.db.statements.rehydration import Place
from aiosched.errors import UnreadableRow

if TYPE_CHECKING:
    from aiosched.scheduler.memory.cache import StateCache


@dataclass(frozen=True, slots=True)
class Rehydration:
    """What is stored about one run besides its own row and those of its instances."""

    lengths: Mapping[Place, int | None]
    decisions: Mapping[Place, list[str]]
    sources: Mapping[Place, tuple[int, str | None]]  # the newest try whose code was not that of the run's version
    unreadable: UnreadableRow | None = None  # why some of it cannot be read

    def apply_to(self, board: Board) -> None:
        """Set it on the board; call this before the board resumes or starts. Raises UnreadableRow."""
        if self.unreadable is not None:
            raise self.unreadable
        for (task, map_index), length in self.lengths.items():
            if length is not None or map_index >= 0:
                board.learn_length(task, map_index, length or 0)
        for (task, map_index), skipped in self.decisions.items():
            if (branch := board.find(task, map_index)) is not None:
                board.recall(branch, skipped)
        for (task, map_index), ran in self.sources.items():
            if (instance := board.find(task, map_index)) is not None:
                board.code.ran[instance] = ran


NOTHING: Final = Rehydration(MappingProxyType({}), MappingProxyType({}), MappingProxyType({}))


async def rehydrate(conn: DatabaseConnection, runs: Sequence[Run], cache: StateCache) -> dict[int, Rehydration]:
    """Read it for `runs`, by their keys; their versions must be held."""
    graphs = {run.key: cache.versions[run.version_id][1] for run in runs}
    measured = [(key, task) for key, graph in graphs.items() if graph.mappings for task in graph.mappings.readers]
    branches = [
        (key, task)
        for key, graph in graphs.items()
        for task, spec in enumerate(graph.tasks)
        if spec.can_skip_downstream
    ]
    lengths = await rehydration.load_map_lengths(conn, measured) if measured else {}
    decisions, unreadable = await rehydration.load_decisions(conn, branches, SKIPPED_DOWNSTREAM)
    outdated = [run.key for run in runs if (dag := cache.dags.get(run.dag_id)) and dag.version.id != run.version_id]
    sources = await rehydration.load_sources(conn, outdated) if outdated else {}
    return {
        key: Rehydration(lengths.get(key, {}), decisions.get(key, {}), sources.get(key, {}), unreadable.get(key))
        for key in {*lengths, *decisions, *sources, *unreadable}
    }
