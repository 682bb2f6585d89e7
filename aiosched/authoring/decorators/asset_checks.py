"""`@asset_check`: a function that says pass, warn or fail of an asset, as a task.

@asset_check(orders, blocking=True, retries=2)
def no_gaps():
    return CheckResult("warn", "3 orders have no customer", {"rows": 3})
"""

from __future__ import annotations

from typing import Any, cast

from aiosched.authoring.assets.assets import Asset, AssetAlias, AssetLink, outlet_of
from aiosched.authoring.base.checks import fail
from aiosched.authoring.decorators.taskflow import MakesTasks, task_decorator_factory
from aiosched.authoring.operators.asset_check import AssetCheckOperator


def asset_check(asset: Asset | AssetLink | str, *, blocking: bool = False, **options: Any) -> MakesTasks:
    """Make a function check `asset`; it returns True, False or a `CheckResult`. `options` are those of the task.

    The asset is an inlet of the task. With `blocking` it is an outlet, too: consumers of the asset begin when the check
    has said pass or warn, so no other task of its DAG has it as outlet. Raises DagError for what is no asset.
    """
    found = outlet_of(asset)
    if found is None or isinstance(found, AssetAlias):
        what = "names no asset before it runs" if isinstance(found, AssetAlias) else "is not an asset"
        raise fail(f"@asset_check({asset!r:.80}) {what}: write @asset_check(Asset('…')) above the function.")
    if not isinstance(blocking, bool):
        raise fail(f"@asset_check(blocking={blocking!r:.80}) is wrong: give True or False.")
    options["inlets"] = _with(found, options.get("inlets"))
    if blocking:
        options["outlets"] = _with(found, options.get("outlets"))
    made = task_decorator_factory(
        decorated_operator_class=AssetCheckOperator, asset=found, blocking=blocking, **options
    )
    return cast("MakesTasks", made)


def _with(asset: Asset | AssetLink, others: Any) -> list[Any]:
    return [asset, *(others if isinstance(others, list | tuple) else () if others is None else (others,))]
