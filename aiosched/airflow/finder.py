"""The meta-path finder that answers `airflow` and `airflow.*`. It imports nothing before it is asked for them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

ROOT = "airflow"


class AirflowFinder:
    """Finds the modules of `aiosched.airflow.modules`. With `defers`, an installed Airflow answers instead."""

    def __init__(self) -> None:
        self.defers = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of Airflow; None for any other. Raises ModuleNotFoundError with a remedy."""
        if fullname != ROOT and not fullname.startswith(f"{ROOT}."):
            return None
        from aiosched.airflow import modules

        if self.defers and modules.installed_airflow() is not None:
            return None
        return modules.find(fullname)


def install(mode: str) -> None:
    """Let `airflow` be answered in this process as the setting `core.airflow` says: compat, installed or off.

    compat: always by aiosched; installed: by an Airflow that is installed here, else by aiosched; off: never by
    aiosched. Calling it again changes the mode for modules that are imported later.
    """
    if mode == "off":
        if _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
        return
    _finder.defers = mode == "installed"
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


_finder = AirflowFinder()
