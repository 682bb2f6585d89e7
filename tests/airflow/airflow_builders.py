"""Builders for the tests of Airflow's DAG files: files with DAGs, loaded as a worker loads them."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiosched.airflow.finder import AirflowFinder, install
from aiosched.authoring.base.settings import AuthoringDefaults, defaults, use_defaults
from aiosched.authoring.dag.dag import DAG
from aiosched.authoring.dag.loader import LoadedFile, load_file
from tests.undone_imports import undone_imports


def load(folder: Path, code: str, name: str = "file.py") -> LoadedFile:
    """The DAGs of a file with that code."""
    path = folder / name
    path.write_text(textwrap.dedent(code))
    return load_file(path, root=folder)


def one_dag(folder: Path, code: str) -> DAG:
    """The only DAG of a file with that code."""
    [dag] = load(folder, code).dags
    return dag


@contextmanager
def using(settings: AuthoringDefaults) -> Iterator[None]:
    """Run the block with other defaults, and `airflow` answered as they say."""
    before = defaults()
    use_defaults(settings)
    install(settings.airflow)
    try:
        yield
    finally:
        use_defaults(before)
        install(before.airflow)


@contextmanager
def clean_imports() -> Iterator[None]:
    """Undo what loading files adds to this process."""
    finders = list(sys.meta_path)
    with undone_imports():
        yield
    sys.meta_path[:] = [one for one in finders if not isinstance(one, AirflowFinder)]
