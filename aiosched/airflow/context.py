"""Names of the context that Airflow 1.10 and 2 have, for functions and templates of their files.

`next_execution_date` and `prev_execution_date` are the neighbours of the logical date in the schedule; for a run that
somebody triggered both are its own logical date. Source: the semantics reference, section 38.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from aiosched.authoring.runtime.context import moment
from aiosched.core.timetables import DataInterval, Restriction, timed
from aiosched.core.values.states import RunType

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context

_SPANS: Final = (timedelta(hours=2), timedelta(days=2), timedelta(days=64), timedelta(days=366 * 8))
# in which the tick before is looked for


def _logical(context: Context) -> Any:
    return moment(context.run.logical_date)


def _neighbour(context: Context, *, forward: bool) -> Any:
    """The next or previous logical date of the schedule."""
    date, dag = context.run.logical_date, context["dag"]
    if date is None:
        return None
    is_triggered = context.run.run_type == RunType.MANUAL and not context.run.is_test
    if is_triggered or dag is None or not timed(dag.timetable).periodic:
        return moment(date)
    timetable = timed(dag.timetable)
    start, end = context.run.interval_start or date, context.run.interval_end or date
    if forward:
        after = timetable.next_run(
            last=DataInterval(start, end), restriction=Restriction(None, None, catchup=True), now=end
        )
        return None if after is None else moment(after.logical_date)
    for span in _SPANS:
        run = timetable.next_run(last=None, restriction=Restriction(date - span, None, catchup=True), now=date)
        before = None
        while run is not None and run.logical_date < date:
            before, run = (
                run,
                timetable.next_run(last=run.interval, restriction=Restriction(None, None, catchup=True), now=date),
            )
        if before is not None:
            return moment(before.logical_date)
    return None


def _shifted(context: Context, days: int) -> Any:
    date = _logical(context)
    return None if date is None else date.add(days=days)


def _ds(name: str) -> Callable[[Context], str | None]:
    return lambda context: None if context[name] is None else context[name].strftime("%Y-%m-%d")


def _nodash(name: str) -> Callable[[Context], str | None]:
    return lambda context: None if context[name] is None else context[name].replace("-", "")


def _day(days: int) -> Callable[[Context], str | None]:
    def shifted(context: Context) -> str | None:
        date = _shifted(context, days)
        return None if date is None else str(date.strftime("%Y-%m-%d"))

    return shifted


class DatasetEvents(Mapping[str, Sequence[Any]]):
    """`triggering_dataset_events`: as `triggering_asset_events`, by URI, as in Airflow 2."""

    def __init__(self, by_asset: Any) -> None:
        self._by_asset = by_asset

    async def load(self) -> DatasetEvents:
        """Fetch them from a coroutine."""
        await self._by_asset.load()
        return self

    def __getitem__(self, uri: Any) -> Sequence[Any]:
        for asset, events in self._by_asset.items():
            if uri in (asset.uri, asset.name, asset):
                found: Sequence[Any] = events
                return found
        raise KeyError(uri)

    def __iter__(self) -> Iterator[str]:
        return (asset.uri or asset.name for asset in self._by_asset)

    def __len__(self) -> int:
        return len(self._by_asset)


VALUES: Final[Mapping[str, Callable[[Context], Any]]] = {
    "execution_date": _logical,
    "expanded_ti_count": lambda context: None,
    "next_ds": _ds("next_execution_date"),
    "next_ds_nodash": _nodash("next_ds"),
    "next_execution_date": lambda context: _neighbour(context, forward=True),
    "prev_ds": _ds("prev_execution_date"),
    "prev_ds_nodash": _nodash("prev_ds"),
    "prev_execution_date": lambda context: _neighbour(context, forward=False),
    "prev_execution_date_success": lambda context: context["prev_data_interval_start_success"],
    "templates_dict": lambda context: getattr(context["task"], "templates_dict", None),
    "tomorrow_ds": _day(1),
    "tomorrow_ds_nodash": _nodash("tomorrow_ds"),
    "triggering_dataset_events": lambda context: DatasetEvents(context["triggering_asset_events"]),
    "yesterday_ds": _day(-1),
    "yesterday_ds_nodash": _nodash("yesterday_ds"),
}
