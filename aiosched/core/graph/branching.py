"""What a branch or short circuit skips.

Lives here: from a stored decision to the tasks that it skips. It is applied when the branch ends, and again whenever
one of its direct downstreams is evaluated later, so that clearing a skipped task does not undo the branch.
Source: the semantics reference, sections 7.2 to 7.4.
"""

from __future__ import annotations

from aiosched.core.graph.graph import Graph
from aiosched.core.values.messages import SkipDecision
from aiosched.errors import BranchError, DagError


def skipped_by(graph: Graph, branch: int, decision: SkipDecision) -> frozenset[int]:
    """The indexes of the tasks that `decision` of the task `branch` skips directly.

    Of a branch: its direct downstreams, except the followed tasks and everything downstream of those. Of a short
    circuit: the tasks it lists, except teardowns. An id may name a task group, which means the group's root tasks. The
    caller does not change instances that are running, success or failed; the trigger rules decide about all others.
    Raises BranchError for an id that the DAG does not have.
    """
    if decision.followed is not None:
        chosen = _resolve_all(graph, branch, decision.followed)
        if not chosen:
            return frozenset(graph.downstream[branch])
        followed = chosen.union(*(graph.descendants(index) for index in chosen))
        return frozenset(graph.downstream[branch]) - followed
    listed = _resolve_all(graph, branch, decision.skipped or ())
    return frozenset(index for index in listed if not graph.is_teardown[index])


def _resolve_all(graph: Graph, branch: int, names: tuple[str, ...]) -> set[int]:
    found: set[int] = set()
    for name in names:
        if not isinstance(name, str):
            raise BranchError(f"Task {graph.task_ids[branch]!r} returned {name!r}: return task ids, which are strings.")
        try:
            found.update(graph.resolve(name))
        except DagError as error:
            raise BranchError(f"Task {graph.task_ids[branch]!r} chose {name!r}: {error}") from None
    return found
