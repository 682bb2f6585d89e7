"""`DagBag` as tests of Airflow projects use it.

Source: the public attributes of `airflow.models.DagBag` in 1.10, 2 and 3.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from aiosched.authoring.dag.loader import load_file
from aiosched.config import load_settings
from aiosched.errors import Refused
from aiosched.parsing.discovery import Discovery, FileSelection
from aiosched.parsing.tracebacks import file_error
from aiosched.testing.dag_bag import begin

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG


class FileLoadStat(NamedTuple):
    """What a file had, and what it took: `duration` in seconds."""

    file: str
    duration: float
    dag_num: int
    task_num: int
    dags: str


class DagBag:
    """The DAGs of a folder or a file by their ids in `dags`, and in `import_errors` a text for each file that has none.

    `dag_folder`: by default the DAGs folder of the settings. Files are imported in this process, without a database.
    There are no example DAGs, and pools and links of operators are not looked at. The keys of `import_errors` are
    absolute paths, or in Airflow 3's way relative to `bundle_path`.
    """

    def __init__(
        self,
        dag_folder: str | os.PathLike[str] | None = None,
        include_examples: bool | None = None,
        safe_mode: bool | None = None,
        *_: Any,
        read_dags_from_db: bool = False,
        collect_dags: bool = True,
        bundle_path: str | os.PathLike[str] | None = None,
        **__: Any,
    ) -> None:
        if read_dags_from_db:
            raise Refused(
                "DagBag(read_dags_from_db=True): ask the REST API or the client about stored DAGs (docs/api.md)."
            )
        self.dag_folder: str = os.fspath(dag_folder or bundle_path or load_settings({}).settings.core.dags_folder)
        self.bundle_path: Path | None = Path(bundle_path) if bundle_path else None
        self.dags: dict[str, DAG] = {}
        self.import_errors: dict[str, str] = {}
        self.captured_warnings: dict[str, tuple[str, ...]] = {}
        self.file_last_changed: dict[str, datetime] = {}
        self.dagbag_stats: list[FileLoadStat] = []
        self.has_logged = False
        if collect_dags:
            self.collect_dags(self.dag_folder, safe_mode=safe_mode)

    @property
    def dag_ids(self) -> list[str]:
        """The ids, in the order of the files."""
        return list(self.dags)

    def size(self) -> int:
        """The number of DAGs."""
        return len(self.dags)

    def get_dag(self, dag_id: str, session: object = None) -> DAG | None:
        """The DAG with that id, or None."""
        return self.dags.get(dag_id)

    def collect_dags(
        self,
        dag_folder: str | os.PathLike[str] | None = None,
        only_if_updated: bool = True,
        include_examples: bool = False,
        safe_mode: bool | None = None,
    ) -> None:
        """Import the files that the scheduler would parse in a folder, or one file; what is neither adds nothing."""
        settings, root = load_settings({}).settings, Path(dag_folder or self.dag_folder).absolute()
        if root.is_file():
            self.process_file(str(root), only_if_updated)
        if not root.is_dir():
            return
        selection = FileSelection.of(settings)
        if safe_mode is not None:
            selection = selection._replace(safe_mode=safe_mode)
        listing = Discovery(root, selection).list(now_ns=time.time_ns())
        for problem in listing.problems.values():
            self.import_errors[self._key(root / problem.name)] = problem.message
        for _, file in sorted(listing.files.items()):
            self._read(file.path, root, file.member)

    def process_file(
        self, filepath: str | os.PathLike[str], only_if_updated: bool = True, safe_mode: bool = True
    ) -> list[DAG]:
        """Import a file and return its DAGs, none if that fails. One that has not changed is imported again, too."""
        path = Path(filepath).absolute()
        if not path.is_file():
            return []
        folder = Path(self.dag_folder).absolute()
        return self._read(path, folder if folder in path.parents else path.parent, None)

    def bag_dag(self, dag: DAG, *_: Any, **__: Any) -> None:
        """Add a DAG. Raises AirflowDagCycleException and DagError."""
        dag.to_spec()
        self.dags[dag.dag_id] = dag

    def dagbag_report(self) -> str:
        """A line for each file that was imported: seconds, DAGs, tasks."""
        rows = [
            f"{one.file}\t{one.duration:.3f} s\t{one.dag_num} DAGs\t{one.task_num} tasks" for one in self.dagbag_stats
        ]
        return "\n".join([f"DagBag loading stats for {self.dag_folder}", *rows])

    def _read(self, path: Path, root: Path, member: str | None) -> list[DAG]:
        key, began = self._key(path / member if member else path), time.monotonic()
        self.import_errors.pop(key, None)
        self.dags = {dag_id: dag for dag_id, dag in self.dags.items() if dag.fileloc != str(path)}
        begin(load_settings({}).settings, root)
        try:
            loaded = load_file(path, root=root, member=member)
            for dag in loaded.dags:
                self._add(dag)
        except (Exception, SystemExit) as error:  # whatever user code raises on import
            found = file_error(error, path=str(path), root=str(root))
            self.import_errors[key] = f"{found.traceback or ''}\n{found.type}: {found.message}".strip()
            return []
        self.captured_warnings[key] = tuple(loaded.warnings)
        self.file_last_changed[key] = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        tasks = sum(len(dag.tasks) for dag in loaded.dags)
        names = str([dag.dag_id for dag in loaded.dags])
        self.dagbag_stats.append(FileLoadStat(key, time.monotonic() - began, len(loaded.dags), tasks, names))
        return loaded.dags

    def _add(self, dag: DAG) -> None:
        other = self.dags.get(dag.dag_id)
        if other is not None and other.fileloc != dag.fileloc:
            raise Refused(f"Ignoring DAG {dag.dag_id} from {dag.fileloc}: {other.fileloc} defines it already.")
        self.bag_dag(dag)

    def _key(self, path: Path) -> str:
        base = self.bundle_path
        return str(path.relative_to(base) if base is not None and base in path.parents else path)
