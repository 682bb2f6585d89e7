"""What to do about a name of Airflow that does not exist here: where it is, or which provider package to install."""

from __future__ import annotations

import difflib
from typing import Final

from aiosched.airflow.tables import MODULES

NESTED: Final = frozenset({"apache", "atlassian", "cncf", "common", "dbt", "microsoft"})  # folders of packages


def unknown(fullname: str) -> str:
    """The message for a module, or a name in a module, that nothing answers."""
    module, _, name = fullname.rpartition(".")
    if fullname.startswith("airflow.providers.") and module not in MODULES:
        return provider(fullname)
    near = difflib.get_close_matches(fullname, MODULES, n=1, cutoff=0.9)
    if module in MODULES and module != "airflow" and not near:
        return f"cannot import name {name!r} from {module!r}. {elsewhere(module, name)}"
    remedy = f"Did you mean {near[0]!r}?" if near else elsewhere(module, name)
    return f"No module named {fullname!r}: aiosched answers `airflow`, and has none of that name. {remedy}"


def provider(fullname: str) -> str:
    """The message for a module of a provider package that is not installed."""
    package = provider_package(fullname)
    return (
        f"No module named {fullname!r}. It belongs to the provider package {package}. If that is not installed: "
        f"`aiosched providers install {package}`. If it is, its version has no such module."
    )


def not_in_version(module: str, name: str) -> str:
    """The message for a name that the module of a provider package does not have."""
    package = provider_package(module)
    if module in MODULES:
        return f"{module} has no {name!r} here. {elsewhere(module, name)}"
    return f"{module} has no {name!r}: the installed version of {package} is too new or too old for it."


def provider_package(fullname: str) -> str:
    """The distribution that has a module below `airflow.providers`."""
    parts = fullname.split(".")[2:]
    return "apache-airflow-providers-" + "-".join(parts[: 2 if parts[0] in NESTED else 1]).replace("_", "-")


def elsewhere(module: str, name: str) -> str:
    """A sentence that says where `name` is, if anywhere."""
    if module.startswith("airflow.providers."):
        package = provider_package(module)
        return f"aiosched has the basics of {package} only. Install it: `aiosched providers install {package}`."
    homes = [other for other, names in MODULES.items() if name in names and other != module]
    if homes:
        best = min(homes, key=lambda home: (home != "airflow.sdk", len(home), home))
        return f"It is in {best}: `from {best} import {name}`."
    near = difflib.get_close_matches(name, MODULES.get(module, ()), n=1, cutoff=0.7)
    return f"Did you mean {near[0]!r}?" if near else "See docs/airflow.md for what is answered."
