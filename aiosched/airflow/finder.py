"""The meta-path finder that answers `airflow` and `airflow.*`. It imports what it answers with when it is asked.

Processes that import code of DAG authors install it; `aiosched.authoring` does not know of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from aiosched.airflow.installed import ROOT, installed_airflow


class AirflowFinder:
    """Finds the modules of `aiosched.airflow.modules`, as its `mode` says; see `install`."""

    def __init__(self) -> None:
        self.mode: str | Callable[[], str] = "off"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of Airflow; None for any other. Raises ModuleNotFoundError with a remedy."""
        if fullname != ROOT and not fullname.startswith(f"{ROOT}."):
            return None
        if callable(self.mode):
            self.mode = self.mode()
        if self.mode == "off":
            return None
        if self.mode == "installed" and installed_airflow() is not None:
            return None
        from aiosched.airflow.modules import find  # with all that it answers with: most DAG files do without

        return find(fullname, [finder for finder in sys.meta_path if finder is not self])


def install(mode: str | Callable[[], str]) -> None:
    """Let `airflow` be answered in this process as the setting `core.airflow` says: compat, installed or off.

    compat: always by aiosched; installed: by an Airflow that is installed here, else by aiosched; off: never by
    aiosched. A function is called when a name is asked for, once. Another call changes the mode for later imports.
    A folder of provider packages alone that has been imported as `airflow` before, as by a filter of warnings that
    pytest reads, is forgotten.
    """
    before = sys.modules.get(ROOT)
    if before is not None and before.__spec__ is not None and before.__spec__.origin is None:
        del sys.modules[ROOT]
    _finder.mode = mode
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


_finder = AirflowFinder()
