"""`aiosched providers`: install Airflow's provider packages without Airflow, and list those that are installed."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aiosched.cli.base.options import Output
from aiosched.cli.base.output import Columns, report, show_list, talk

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from aiosched.cli.operation.provider_plan import ProviderPlan
    from aiosched.providers import ProviderPackage

app: typer.Typer = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="Airflow's provider packages, without Airflow.",
)

_COLUMNS: Final[Columns[ProviderPackage]] = {
    "PACKAGE": lambda provider: provider.package,
    "VERSION": lambda provider: provider.version,
    "CONNECTION TYPES": lambda provider: ", ".join(one.name for one in provider.connection_types),
    "DECORATORS": lambda provider: ", ".join(f"@task.{name}" for name in provider.decorators),
    "OPERATORS": lambda provider: len(provider.operators) + len(provider.sensors) + len(provider.transfers),
    "HOOKS": lambda provider: len(provider.hooks),
}


@app.command()
def install(
    packages: Annotated[list[str], typer.Argument(metavar="PACKAGE[==VERSION]…", help="Provider packages.")],
    target: Annotated[
        Path | None,
        typer.Option(
            "--target", metavar="FOLDER", help="Install into this folder, not the environment.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be installed.")] = False,
    output: Output = None,
) -> None:
    """Install providers with what they need except Airflow, by uv or pip. Safe to repeat."""
    from aiosched.cli.operation.provider_plan import make_plan, parse_requirements
    from aiosched.cli.operation.provider_tools import Installer
    from aiosched.providers import forget_providers

    wanted = parse_requirements(packages)
    installer = Installer.found(target)
    plan = make_plan(wanted, installer.read)
    for warning in plan.warnings:
        talk(f"warning: {warning}")
    missing = _missing(plan, target)
    if not dry_run:
        # Into an environment all of them, so that what is there and what comes fit together.
        resolved = plan if target is None and missing.requirements else missing
        installer.install([*resolved.requirements], alone=False)
        installer.install([one.pin for one in missing.packages.values()], alone=True)
        forget_providers()
        for problem in _no_longer_met():
            talk(f"warning: {problem}")
    verb = "would install" if dry_run else "installed"
    talk(f"{verb}: {', '.join(one.pin for one in missing.packages.values()) or 'nothing, all is there'}")
    if missing.requirements:
        talk(f"with: {', '.join(missing.requirements)}")
    report(
        {
            "packages": [one.pin for one in missing.packages.values()],
            "requirements": list(missing.requirements),
            "left_out": sorted(plan.left_out),
            "dry_run": dry_run,
        },
        output,
    )


@app.command("list")
def list_(output: Output = None) -> None:
    """List the installed providers: their connection types, decorators, modules with operators, and hooks."""
    from aiosched.providers import installed_providers

    show_list([*installed_providers().values()], _COLUMNS, output, empty="no provider packages are installed")


def _missing(plan: ProviderPlan, target: Path | None) -> ProviderPlan:
    """The part of the plan that this environment, or the folder `target` together with it, does not have."""
    from aiosched.cli.operation.provider_plan import ProviderPlan

    there = _distributions([*([] if target is None else [str(target)]), *sys.path])
    own = there if target is None else _distributions([str(target)])
    return ProviderPlan(
        packages={
            name: one for name, one in plan.packages.items() if name not in own or own[name].version != one.version
        },
        requirements={text: one for text, one in plan.requirements.items() if not _is_met(one, there)},
        left_out=plan.left_out,
        warnings=plan.warnings,
    )


def _no_longer_met() -> Iterator[str]:
    """What aiosched itself needs, and has not since a package that was installed needs another version."""
    from packaging.requirements import Requirement

    there = _distributions(sys.path)
    for one in map(Requirement, metadata.requires("aiosched") or ()):
        if (one.marker is None or one.marker.evaluate({"extra": ""})) and not _is_met(one, there):
            found = there.get(_normal(one.name))
            yield (
                f"aiosched needs {one.name}{one.specifier}, and {'none' if found is None else found.version} is "
                "installed now: a package that was installed asks for that. Choose another version of the provider, or "
                "install it with --target into a folder that only its tasks use."
            )


def _is_met(requirement: Requirement, there: Mapping[str, metadata.Distribution]) -> bool:
    """Whether it is installed in a fitting version, and what its extras require is, too.

    An extra that requires another one is left to the installer.
    """
    found = there.get(_normal(requirement.name))
    if found is None or not requirement.specifier.contains(found.version, prereleases=True):
        return False
    return not requirement.extras or all(
        not one.extras and _is_met(one, there) for one in _required_by_extras(found, requirement.extras)
    )


def _required_by_extras(distribution: metadata.Distribution, extras: Collection[str]) -> Iterator[Requirement]:
    from packaging.requirements import Requirement

    for one in map(Requirement, distribution.requires or ()):
        marker = one.marker
        if marker is None or marker.evaluate({"extra": ""}):
            continue
        if any(marker.evaluate({"extra": extra}) for extra in extras):
            yield one


def _distributions(path: list[str]) -> dict[str, metadata.Distribution]:
    found: dict[str, metadata.Distribution] = {}
    for distribution in metadata.distributions(path=path):
        found.setdefault(_normal(distribution.metadata["Name"]), distribution)
    return found


def _normal(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)
