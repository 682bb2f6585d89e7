"""Tasks that check an asset and report what they found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.authoring.assets.assets import Asset, AssetLink
from aiosched.authoring.assets.check_results import CheckResult, result_of
from aiosched.authoring.operators.python import PythonOperator
from aiosched.authoring.runtime.services import acall, call
from aiosched.errors import AssetCheckFailed

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


class AssetCheckOperator(PythonOperator):
    """The task of a function with `@asset_check`. The function returns True, False or a `CheckResult`.

    The result is stored whatever it is, at most once for an attempt; `fail` fails the attempt then, with
    AssetCheckFailed. The status is pushed. The asset is among the inlets, of a check that is `blocking` among the
    outlets, too.
    """

    custom_operator_name: ClassVar[str] = "@asset_check"
    keeps_state: ClassVar[bool] = False

    def __init__(self, *, asset: Asset | AssetLink | str, blocking: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asset, self.blocking = asset, blocking

    def conclude(self, result: Any, context: Context) -> Any:
        """Report the result of a plain function."""
        if self.is_async:
            return result
        found = result_of(result, self.task_id)
        call("asset_check", **_report(found, context))
        return self._pushed(found)

    async def _execute_async(self, context: Context) -> Any:
        found = result_of(await super()._execute_async(context), self.task_id)
        await acall("asset_check", **_report(found, context))
        return self._pushed(found)

    def _pushed(self, found: CheckResult) -> str:
        if found.status == "fail":
            raise AssetCheckFailed(found.message or f"the check says fail of {self.asset!r}")
        return str(found.status)


def _report(found: CheckResult, context: Context) -> dict[str, Any]:
    ti = context["ti"]
    return {"task_id": ti.task_id, "map_index": ti.map_index, "try_number": ti.try_number, **found.shown()}
