"""Declaring asset watchers: the semantics reference, section 15.1."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched import DAG, Asset, AssetWatcher, EmptyOperator
from aiosched.core.assets.conditions import WatcherSpec
from aiosched.core.graph.spec import asset_references
from aiosched.errors import DagError
from aiosched.triggers import BaseTrigger, FileTrigger


class Door(BaseTrigger):
    """Cannot be stored."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing


def test_the_schedule_says_who_watches_its_assets_and_other_mentions_do_not() -> None:
    orders = Asset("orders", watchers=[AssetWatcher("files", FileTrigger("/in/*.csv"))])
    with DAG("d", schedule=orders | Asset("other")) as dag:
        EmptyOperator(task_id="t", outlets=[orders])

    found = {(r.role, r.name): r.watchers for r in asset_references(dag.to_spec())}

    kwargs = '{"filepath": "/in/*.csv", "recursive": false, "poke_interval": 5.0}'
    watcher = WatcherSpec("files", "aiosched.authoring.triggers.file.FileTrigger", kwargs)
    assert found == {("schedule", "orders"): (watcher,), ("schedule", "other"): (), ("outlet", "orders"): ()}
    assert dag.to_spec() == dag.to_spec()


@pytest.mark.parametrize(
    ("trigger", "words"),
    [("door", "needs a trigger, not 'door'"), (Door(object()), r"kwargs of Door\['thing'\] is an object, which JSON")],
    ids=["no trigger", "no JSON"],
)
def test_what_cannot_watch_is_refused_when_the_dag_is_made(trigger: Any, words: str) -> None:
    with (
        pytest.raises(DagError, match=f"AssetWatcher 'door'.*{words}"),
        DAG("d", schedule=Asset("a", watchers=[AssetWatcher("door", trigger)])) as dag,
    ):
        dag.to_spec()
