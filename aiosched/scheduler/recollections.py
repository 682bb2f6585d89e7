"""Giving a board that is read back what its rows do not say: lengths of values, and decisions of branches.

A branch's decision and a value that others are mapped over are XComs. Does not live here:
the run before (past.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from aiosched.core.board import SKIPPED_DOWNSTREAM, Board, Run
from aiosched.core.graph import Graph
from aiosched.db import recollections as statements
from aiosched.db.engine import Connection
from aiosched.db.recollections import Place
from aiosched.db.runs import Version


@dataclass(frozen=True, slots=True)
class Recollection:
    """What is known of one run besides its rows."""

    lengths: Mapping[Place, int | None]
    decisions: Mapping[Place, list[str]]

    def tell(self, board: Board) -> None:
        """Let the board know it; call it before the board resumes or starts."""
        for (task, map_index), length in self.lengths.items():
            if length is not None or map_index >= 0:
                board.learn_length(task, map_index, length or 0)
        for (task, map_index), skipped in self.decisions.items():
            if (branch := board.find(task, map_index)) is not None:
                board.recall(branch, skipped)


NOTHING: Final = Recollection(MappingProxyType({}), MappingProxyType({}))


async def recollect(
    conn: Connection, runs: Iterable[Run], versions: Mapping[int, tuple[Version, Graph]]
) -> dict[int, Recollection]:
    """What is known of `runs`, by their keys; the versions they are pinned to must be held."""
    graphs = {run.key: versions[run.version_id][1] for run in runs}
    measured = [(key, task) for key, graph in graphs.items() if graph.mappings for task in graph.mappings.readers]
    branches = [
        (key, task)
        for key, graph in graphs.items()
        for task, spec in enumerate(graph.tasks)
        if spec.can_skip_downstream
    ]
    lengths = await statements.load_map_lengths(conn, measured) if measured else {}
    decisions = await statements.load_decisions(conn, branches, SKIPPED_DOWNSTREAM) if branches else {}
    return {key: Recollection(lengths.get(key, {}), decisions.get(key, {})) for key in {*lengths, *decisions}}
