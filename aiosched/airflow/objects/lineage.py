"""`airflow.sdk.lineage`: hooks report which data they touched. aiosched records assets instead, so nothing is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final


@dataclass
class AssetLineageInfo:
    """An asset that a hook read or wrote."""

    asset: Any = None
    count: int = 0
    context: Any = None


@dataclass
class HookLineage:
    """What hooks reported: always nothing."""

    inputs: list[AssetLineageInfo] = field(default_factory=list)
    outputs: list[AssetLineageInfo] = field(default_factory=list)
    extra: list[Any] = field(default_factory=list)


class HookLineageCollector:
    """Takes the reports of hooks and keeps none."""

    def add_input_asset(self, *args: Any, **kwargs: Any) -> None:
        """Report data that was read."""

    def add_output_asset(self, *args: Any, **kwargs: Any) -> None:
        """Report data that was written."""

    def add_extra(self, *args: Any, **kwargs: Any) -> None:
        """Report something else."""

    add_input_dataset = add_input_asset
    add_output_dataset = add_output_asset

    def create_asset(self, *args: Any, **kwargs: Any) -> None:
        """None: no asset is made of a report."""

    @property
    def collected_assets(self) -> HookLineage:
        """What was reported: nothing."""
        return HookLineage()

    @property
    def has_collected(self) -> bool:
        """Whether anything was reported: never."""
        return False


class HookLineageReader:
    """For listeners that would send lineage elsewhere; it reads nothing."""

    def __init__(self, **_: Any) -> None:
        self.lineage_collector: HookLineageCollector = get_hook_lineage_collector()

    def retrieve_hook_lineage(self) -> HookLineage:
        """What was reported: nothing."""
        return HookLineage()


_collector: Final = HookLineageCollector()


def get_hook_lineage_collector() -> HookLineageCollector:
    """The collector of this process."""
    return _collector
