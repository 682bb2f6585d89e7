"""Checks of assets in a DAG: which tasks they are, and that a blocking one is alone in emitting its asset.

Why: docs/decisions/0078-a-blocking-check-emits-the-event.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from aiosched.authoring.assets.assets import Asset, AssetAlias, AssetLink, outlet_of
from aiosched.authoring.operators.asset_check import AssetCheckOperator
from aiosched.authoring.tasks.nesting import is_mapped

if TYPE_CHECKING:
    from aiosched.authoring.dag.contents import DagContents
    from aiosched.authoring.tasks.operator import BaseOperator


def checked_asset(task: BaseOperator) -> Asset | AssetLink | None:
    """The asset that a task checks; None if it is no check."""
    if not issubclass(task.operator_class, AssetCheckOperator):
        return None
    found = outlet_of(getattr(task, "partial_kwargs", vars(task)).get("asset"))
    return None if isinstance(found, AssetAlias) else found


def check_blocking(dag: DagContents) -> None:
    """Raise DagError where the consumers of an asset could begin although a blocking check has not passed."""
    through: list[tuple[Asset | AssetLink, BaseOperator]] = []  # assets that a check lets through, and which
    for task in dag.task_dict.values():
        asset = checked_asset(task)
        if asset is None:
            continue
        called = f"The check {task.task_id!r} of {asset!r}"
        blocks = bool(getattr(task, "partial_kwargs", vars(task)).get("blocking"))
        if not _is_among(asset, task.inlets) or (blocks and not _is_among(asset, task.outlets)):
            raise task.fail(
                f"{called} has lost its asset, because inlets= or outlets= were given anew. Name the asset there, too."
            )
        if not _is_among(asset, task.outlets):
            continue
        if is_mapped(task):
            raise task.fail(
                f"{called} has several instances, and the first that passes would let consumers begin. Leave out "
                "blocking=True, and let another check that blocks wait for all of them."
            )
        for other in (check for known, check in through if _is_among(asset, [known])):
            raise task.fail(
                f"{called} and the check {other.task_id!r} both block, and the first that passes would let consumers "
                f"begin. Let {task.task_id!r} wait for {other.task_id!r}, and leave out blocking=True of the latter."
            )
        through.append((asset, task))
    for asset, check in through:
        for task in dag.task_dict.values():
            if task is not check and _is_among(asset, task.outlets):
                raise task.fail(
                    f"Task {task.task_id!r} has {asset!r} among its outlets, so consumers would begin before the "
                    f"check {check.task_id!r} has passed. Take it from these outlets: the check emits the event."
                )


def _is_among(asset: Asset | AssetLink, outlets: Iterable[object]) -> bool:
    """Whether one of the outlets is or may be the asset: by its name, or by its URI."""
    names = {text for text in (asset.name, asset.uri) if text}
    others = (one for one in map(outlet_of, outlets) if one is not None and not isinstance(one, AssetAlias))
    return any(one.name in names or one.uri in names for one in others)
