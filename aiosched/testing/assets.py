"""Asset events of a `World`: what waits for which DAG, in place of the queue's tables (db/assets.py)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from aiosched.core.assets import AssetId, QueuedAsset, is_met, leaves, triggering_instant, why_not_triggered
from aiosched.core.messages import AssetTouch
from aiosched.core.spec import DagSpec, TaskSpec, asset_references
from aiosched.core.timetables.assets import condition_of
from aiosched.db.assets import NewEvent
from aiosched.db.runs import DagRow, Version
from aiosched.scheduler.assets import run_by_assets, status_of
from aiosched.scheduler.holdings import OwnedDag
from aiosched.scheduler.new_runs import Creation


@dataclass(slots=True)
class AssetQueues:
    """The events, which assets have news that no run of a DAG has seen, and which events belong to which run."""

    events: list[NewEvent] = field(default_factory=list)
    waiting: dict[str, dict[str, QueuedAsset]] = field(default_factory=dict)  # by DAG id, then by the asset's name
    aliases: dict[str, set[str]] = field(default_factory=dict)
    consumed: dict[int, list[NewEvent]] = field(default_factory=dict)  # by the key of the run
    _unseen: dict[str, list[NewEvent]] = field(default_factory=dict)  # by DAG id

    def record(self, events: Iterable[NewEvent], dags: Iterable[DagRow], versions: dict[int, Version]) -> None:
        """Queue events for the DAGs that their assets may concern; what waits already becomes newer.

        DAGs that are paused or stale get none (15.2); the events are still news for their next run.
        """
        conditions = {row: condition_of(versions[row.version_id].spec.timetable) for row in dags}
        for event in events:
            self.events.append(event)
            asset = AssetId(event.name, event.uri)
            if event.alias is not None:
                self.aliases.setdefault(event.alias, set()).add(event.name)
            for row, condition in conditions.items():
                if condition is None or not any(is_met(leaf, [asset], self.aliases) for leaf in leaves(condition)):
                    continue
                self._unseen.setdefault(row.dag_id, []).append(event)
                if not (row.is_paused or row.is_stale):
                    queued = QueuedAsset(len(self.events), asset, event.timestamp)
                    self.waiting.setdefault(row.dag_id, {})[asset.name] = queued

    def ready(self, dag: OwnedDag, number: int) -> Creation | None:
        """The run that what waits for `dag` makes now, if it makes one. Its run id has the `number`, not chance."""
        queue = list(self.waiting.get(dag.row.dag_id, {}).values())
        if not queue or why_not_triggered(status_of(dag), queue, self.aliases) is not None:
            return None
        at: datetime = triggering_instant(queue)
        creation = run_by_assets(dag, at)
        if creation is None:
            return None
        run_id = f"{creation.planned.run_type}__{at.isoformat()}_{number:08x}"
        return creation._replace(planned=creation.planned._replace(run_id=run_id))

    def consume(self, dag_id: str, run: int) -> None:
        """A run has seen everything that happened for the DAG."""
        self.waiting.pop(dag_id, None)
        self.consumed[run] = self._unseen.pop(dag_id, [])

    def forget(self, dag_id: str) -> None:
        """The DAG is not scheduled on assets (any more): what waited for it is dropped (15.3)."""
        self.waiting.pop(dag_id, None)
        self._unseen.pop(dag_id, None)


def touches_of(task: TaskSpec) -> tuple[AssetTouch, ...]:
    """The events that a success of `task` makes: one for each outlet. Aliases name their assets at run time only."""
    return tuple(AssetTouch(name=ref.name, uri=ref.uri) for ref in task.outlets if not ref.is_alias)


def is_mentioned(name: str, specs: Iterable[DagSpec]) -> tuple[str | None, list[str]]:
    """The URI of an asset that a DAG mentions (None: nobody does), and the names of all that are mentioned."""
    found: dict[str, str] = {}
    for spec in specs:
        for reference in asset_references(spec):
            if reference.kind in ("asset", "name"):
                found[reference.name] = reference.uri or found.get(reference.name, "")
    return found.get(name), sorted(found)
