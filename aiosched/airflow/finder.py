"""The meta-path finder that answers `airflow` and `airflow.*`. It imports nothing before it is asked for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

ROOT = "airflow"


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
        if self.mode == "installed" and import_module("aiosched.airflow.installed").installed_airflow() is not None:
            return None
        found: ModuleSpec | None = import_module("aiosched.airflow.modules").find(fullname)
        return found


def install(mode: str | Callable[[], str]) -> None:
    """Let `airflow` be answered in this process as the setting `core.airflow` says: compat, installed or off.

    compat: always by aiosched; installed: by an Airflow that is installed here, else by aiosched; off: never by
    aiosched. A function is called when a name is asked for, once. Another call changes the mode for later imports.
    """
    _finder.mode = mode
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def folder_of_another() -> str | None:
    """The folder of an Airflow that is not aiosched and has been imported in this process."""
    file: str | None = getattr(sys.modules.get(ROOT), "__file__", None)  # modules of aiosched's have none
    return None if file is None else os.path.dirname(file)  # noqa: PTH120 - nothing else is imported here


_finder = AirflowFinder()
