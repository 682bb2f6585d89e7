"""All DAGs of a folder, imported in this process: for tests of the DAG files themselves.

The files are those that the scheduler would parse (ignore files, safe mode, archives). They are
imported without a child process, so that a test gets the DAG objects and can run them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiosched.airflow.finder import install
from aiosched.authoring.base.settings import AuthoringDefaults, use_defaults
from aiosched.authoring.dag.loader import load_file
from aiosched.authoring.runtime.lookups import VARIABLE, answering
from aiosched.config import Settings, load_settings
from aiosched.errors import ConfigError, NotFound, did_you_mean
from aiosched.parsing.discovery import Discovery, FileSelection
from aiosched.parsing.result import FileError
from aiosched.parsing.tracebacks import file_error
from aiosched.testing.services import texts_of

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG


@dataclass(frozen=True, slots=True)
class DagBag(Mapping[str, "DAG"]):
    """The DAGs by id, in the order of their files; `errors` and `warnings` by file name."""

    folder: Path
    dags: dict[str, DAG] = field(default_factory=dict)
    errors: dict[str, FileError] = field(default_factory=dict)
    warnings: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __getitem__(self, dag_id: str) -> DAG:
        if dag_id not in self.dags:
            raise NotFound(f"No file in {self.folder} defines the DAG {dag_id!r}.{did_you_mean(dag_id, self.dags)}")
        return self.dags[dag_id]

    def __contains__(self, dag_id: object) -> bool:
        return dag_id in self.dags

    def __iter__(self) -> Iterator[str]:
        return iter(self.dags)

    def __len__(self) -> int:
        return len(self.dags)

    def explain(self) -> str:
        """The import errors as text, each with its code frame; empty if there are none."""
        return "\n\n".join(_text(name, error) for name, error in self.errors.items())


def begin(settings: Settings, root: Path) -> None:
    """What importing DAG files below `root` needs in this process: defaults of authors, answers to `import airflow`."""
    use_defaults(AuthoringDefaults.of(settings, root))
    install(settings.core.airflow)


def load_dag_bag(
    folder: Path | str | None = None,
    *,
    settings: Settings | None = None,
    variables: Mapping[str, Any] | None = None,
    connections: Mapping[str, str | Mapping[str, Any]] | None = None,
) -> DagBag:
    """Import every DAG file of `folder` (None: the DAGs folder of the settings).

    What files look up at their top level is in the environment, else in `variables` (those that are no texts are read
    as JSON) and `connections` (by id: URIs, or their fields). No database is used.
    Exceptions of files are kept in `errors`, and so are DAG ids that another file has already defined.
    Raises ConfigError if there is no such folder.
    """
    settings = settings or load_settings({}).settings
    root = Path(folder or settings.core.dags_folder).absolute()
    if not root.is_dir():
        raise ConfigError(f"There is no DAGs folder {root}; give the folder, or set AIOSCHED_DAGS.")
    begin(settings, root)
    listing = Discovery(root, FileSelection.of(settings)).list(now_ns=time.time_ns())
    bag = DagBag(root)
    for problem in listing.problems.values():
        bag.errors[problem.name] = FileError(type="Unreadable", message=problem.message)
    owners: dict[str, str] = {}
    for name, file in sorted(listing.files.items()):
        try:
            with answering(_answers(variables or {}, connections or {})):
                loaded = load_file(file.path, root=root, member=file.member)
            for dag in loaded.dags:
                dag.to_spec()
        except (Exception, SystemExit) as error:  # whatever user code raises on import
            path = file.path / file.member if file.member else file.path
            bag.errors[name] = file_error(error, path=str(path), root=str(root))
            continue
        if loaded.warnings:
            bag.warnings[name] = tuple(loaded.warnings)
        for dag in loaded.dags:
            if (first := owners.setdefault(dag.dag_id, name)) == name:
                bag.dags[dag.dag_id] = dag
            else:
                message = f"the DAG {dag.dag_id!r} is defined in {first} already; give one of them another dag_id."
                bag.errors[name] = FileError(type="DagError", message=message)
    return bag


def _answers(
    variables: Mapping[str, Any], connections: Mapping[str, str | Mapping[str, Any]]
) -> Callable[[str, str], dict[str, Any]]:
    texts = texts_of(variables)

    def answer(kind: str, key: str) -> dict[str, Any]:
        return {"value": (texts if kind == VARIABLE.name else connections).get(key), "database": False}

    return answer


def _text(name: str, error: FileError) -> str:
    place = f"{name}:{error.line}" if error.line else name
    return f"{place}: {error.type}: {error.message}\n{error.code_frame or error.traceback or ''}".rstrip()
