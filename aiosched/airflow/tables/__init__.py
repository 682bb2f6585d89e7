"""Which module of Airflow has which names, and where each is at home: one file for each area.

A home is `module:attribute`, `module:` for an attribute of the same name, or a module alone. The name `*` stands for
all public names of its home. A home in `airflow.providers` needs that provider package.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Final


def _merged() -> dict[str, dict[str, str]]:
    merged: dict[str, dict[str, str]] = {}
    for area in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        for module, names in import_module(f"{__name__}.{area}").NAMES.items():
            merged.setdefault(module, {}).update(names)
    return merged


MODULES: Final = _merged()
