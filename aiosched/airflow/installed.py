"""The package that is answered, and whether an Airflow is installed here."""

from __future__ import annotations

from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

ROOT: Final = "airflow"


def installed_airflow() -> str | None:
    """The file of an Airflow that is installed here, if there is one. Provider packages alone are none."""
    spec = PathFinder.find_spec(ROOT, None)
    if spec is None or spec.origin is None or spec.submodule_search_locations is None:
        return None
    has_models = any((Path(folder) / "models").exists() for folder in spec.submodule_search_locations)
    return spec.origin if has_models else None
