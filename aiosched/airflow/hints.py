"""What to do about a name of Airflow that does not exist here: where it is, or which provider package to install."""

from __future__ import annotations

import difflib
from typing import Final

from aiosched.airflow.tables import MODULES, PRIVATE, Removed, absent, providers

PACKAGES: Final = "apache-airflow-providers-"
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
    if package is None:
        return (
            f"No module named {fullname!r}, and no provider package of Airflow is known that has it. If it is one of "
            "your own, install it from where you keep it, or put its folder on the path."
        )
    return (
        f"No module named {fullname!r}. It belongs to the provider package {package}. If that is not installed: "
        f"`aiosched providers install {package}`. If it is, its version has no such module."
    )


def removed_for(module: str, name: str, row: Removed) -> str:
    """The message for a name that newer provider packages do not have, and that nothing replaces as it is."""
    package = provider_package(module)
    place, _, attribute = row.home.partition(":")
    remedy = f"Its successor takes other parameters: `from {place} import {attribute}`. " if row.home else ""
    return (
        f"cannot import name {name!r} from {module!r}: {package} has removed it after version {row.last}. {remedy}"
        f"To use it as it was: `aiosched providers install {package}=={row.last}`."
    )


def not_in_version(module: str, name: str) -> str:
    """The message for a name that the module of a provider package does not have."""
    package = provider_package(module) or "its package"
    if module in MODULES:
        return f"{module} has no {name!r} here. {elsewhere(module, name)}"
    return (
        f"{module} has no {name!r}. It belongs to the provider package {package}. If that is not installed: "
        f"`aiosched providers install {package}`. If it is, its version is too new or too old for it."
    )


def provider_package(fullname: str) -> str | None:
    """The distribution that has a module below `airflow.providers`; None for one that is not of Airflow's project.

    Only known names are given, since anybody can publish a package with another one.
    """
    parts = fullname.replace("_", "-").split(".")[2:]
    names = ("-".join(parts[:length]) for length in (2, 1))
    return next((f"{PACKAGES}{name}" for name in names if name in providers()), None)


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
    return f"Did you mean {near[0]!r}?" if near else instead_of(f"{module}.{name}")


def instead_of(name: str) -> str:
    """A sentence about a dotted name that nothing answers: what to use instead."""
    parts = name.split(".")
    places = (".".join(parts[:length]) for length in range(len(parts), 1, -1))
    remedy = next((absent()[place] for place in places if place in absent()), "")
    if remedy == PRIVATE:
        return "In Airflow it is for Airflow itself. See docs/airflow.md for what is answered."
    return remedy or "See docs/airflow.md for what is answered."
