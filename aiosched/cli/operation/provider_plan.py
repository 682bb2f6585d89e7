"""What an installation of provider packages consists of: the packages, and what they need besides Airflow.

Every provider requires `apache-airflow`. The plan leaves Airflow and its parts out, and reads the requirements of the
packages themselves: other providers belong to the plan, the rest is installed as the index resolves it. Some providers
import libraries that they do not declare, because Airflow brings them; those are added.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import Distribution
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from aiosched.airflow.version import version as answered_version
from aiosched.cli.base.options import UsageProblem

AIRFLOW_PARTS: Final = frozenset(
    {"apache-airflow", "apache-airflow-core", "apache-airflow-task-sdk", "apache-airflow-ctl", "apache-airflow-client"}
)
PROVIDER: Final = "apache-airflow-providers-"

# Libraries that come with Airflow, so that providers import them without a requirement: module -> distribution.
COMES_WITH_AIRFLOW: Final[Mapping[str, str]] = {
    "aiofiles": "aiofiles", "asgiref": "asgiref", "attr": "attrs", "attrs": "attrs", "cachetools": "cachetools",
    "croniter": "croniter", "cryptography": "cryptography", "dateutil": "python-dateutil", "deprecated": "deprecated",
    "dill": "dill", "fsspec": "fsspec", "httpx": "httpx", "jinja2": "Jinja2", "jsonschema": "jsonschema",
    "jwt": "PyJWT", "lazy_object_proxy": "lazy-object-proxy", "markupsafe": "MarkupSafe", "methodtools": "methodtools",
    "more_itertools": "more-itertools", "packaging": "packaging", "pendulum": "pendulum", "psutil": "psutil",
    "pydantic": "pydantic", "pytz": "pytz", "requests": "requests", "rich": "rich", "slugify": "python-slugify",
    "sqlalchemy": "SQLAlchemy", "sqlparse": "sqlparse", "structlog": "structlog", "tabulate": "tabulate",
    "tenacity": "tenacity", "termcolor": "termcolor", "typing_extensions": "typing-extensions",
    "upath": "universal-pathlib", "yaml": "PyYAML",
}  # fmt: skip


@dataclass(frozen=True)
class Fetched:
    """A distribution that was read: its name, version, requirements and the top-level modules that it imports."""

    name: str
    version: str
    requires: tuple[Requirement, ...]
    imports: frozenset[str]

    @property
    def pin(self) -> str:
        """The requirement of just this version."""
        return f"{self.name}=={self.version}"


@dataclass
class ProviderPlan:
    """What will be installed: packages without their requirements, then requirements. `warnings` are for the user."""

    packages: dict[str, Fetched] = field(default_factory=dict)
    requirements: dict[str, Requirement] = field(default_factory=dict)  # by text
    left_out: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)


def parse_requirements(texts: Collection[str]) -> list[Requirement]:
    """The requirements that a user names. Raises UsageProblem for one that is none, or that is Airflow itself."""
    found = []
    for text in texts:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            raise UsageProblem(f"{text} is not a package: write NAME or NAME==VERSION ({error}).") from None
        if canonicalize_name(requirement.name) in AIRFLOW_PARTS:
            raise UsageProblem(f"{requirement.name} is Airflow itself, which aiosched does without: name a provider.")
        found.append(requirement)
    return found


def make_plan(wanted: Collection[Requirement], fetch: Callable[[str], Fetched]) -> ProviderPlan:
    """Follow the requirements of `wanted` from provider to provider. `fetch` reads one distribution by requirement.

    A provider that several packages require gets a version that fits all of them; `fetch` raises if there is none.
    """
    plan = ProviderPlan()
    constraints: dict[str, SpecifierSet] = {}
    extras: dict[str, set[str]] = {}
    waiting = list(wanted)
    while waiting:
        requirement = waiting.pop(0)
        name = canonicalize_name(requirement.name)
        known = plan.packages.get(name)
        before, new = extras.setdefault(name, set()), set(requirement.extras)
        constraints[name] = constraints.get(name, SpecifierSet()) & requirement.specifier
        if known is not None and constraints[name].contains(known.version, prereleases=True) and new <= before:
            continue
        extras[name] = before | new
        fetched = fetch(f"{name}{constraints[name]}")
        plan.packages[name] = fetched
        waiting += _followed(plan, fetched, extras[name])
    return plan


def _followed(plan: ProviderPlan, fetched: Fetched, extras: Collection[str]) -> Iterator[Requirement]:
    """The providers among the requirements of a package; the other requirements join the plan."""
    declared = set()
    for requirement in fetched.requires:
        name = canonicalize_name(requirement.name)
        declared.add(name)
        if not _applies(requirement, extras):
            continue
        if name in AIRFLOW_PARTS:
            plan.left_out.add(name)
            if not requirement.specifier.contains(answered_version, prereleases=True):
                plan.warnings.append(
                    f"{fetched.pin} is made for {requirement.name}{requirement.specifier}; aiosched answers as Airflow "
                    f"{answered_version}, so parts of it may not work."
                )
        elif name.startswith(PROVIDER):
            yield requirement
        else:
            _add(plan, requirement)
    for module in sorted(fetched.imports & COMES_WITH_AIRFLOW.keys()):
        distribution = COMES_WITH_AIRFLOW[module]
        if canonicalize_name(distribution) not in declared:
            _add(plan, Requirement(distribution))


def _add(plan: ProviderPlan, requirement: Requirement) -> None:
    plain = Requirement(str(requirement))
    plain.marker = None  # it applies
    plan.requirements[str(plain)] = plain


def _applies(requirement: Requirement, extras: Collection[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras})


def read_distribution(distribution: Distribution) -> Fetched:
    """What a plan needs to know about a distribution whose files are there."""
    requires = tuple(Requirement(text) for text in distribution.requires or ())
    files = [file for file in distribution.files or () if file.suffix == ".py"]
    imports: set[str] = set()
    for file in files:
        imports |= _imported(Path(str(distribution.locate_file(file))))
    return Fetched(canonicalize_name(distribution.metadata["Name"]), distribution.version, requires, frozenset(imports))


def _imported(path: Path) -> set[str]:
    """The top-level modules that a file imports, also in functions, except the standard library's."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return set()
    found: set[str] = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.If) and _is_for_type_checkers(node.test):
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)
    return found - sys.stdlib_module_names


def _is_for_type_checkers(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", ""))
