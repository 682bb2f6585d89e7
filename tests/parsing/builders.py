"""Small builders for the tests of parsing."""

from __future__ import annotations

import zipfile
from pathlib import Path
from textwrap import dedent

from aiosched.config import Settings
from aiosched.core.graph.spec import DagSpec, TaskSpec, encode_spec
from aiosched.parsing.discovery import DagFile, Listing
from aiosched.parsing.result import FileError, ParsedDag, ParsedFile, parsed_dag


def settings_for(folder: Path, *, import_timeout: float = 5.0, file_timeout: float = 10.0) -> Settings:
    """Two processes, small limits, and no pause between two parses of a file."""
    settings = Settings()
    settings.core.dags_folder = folder
    settings.core.dagbag_import_timeout = import_timeout
    settings.parsing.file_timeout = file_timeout
    settings.parsing.processes = 2
    settings.parsing.max_memory_bytes = 512 * 1024 * 1024
    settings.parsing.max_output_bytes = 65_536
    settings.parsing.min_file_process_interval = 0.0
    return settings


def dag_source(*dag_ids: str, tasks: int = 1, before: str = "", extra: str = "") -> str:
    """A DAG file; each DAG has `tasks` empty tasks."""
    lines = [
        "from aiosched.authoring.dag.dag import DAG",
        "from aiosched import EmptyOperator",
        before,
    ]
    for dag_id in dag_ids:
        lines += [f"with DAG({dag_id!r}, schedule=None, catchup=False{extra}):"]
        lines += [f"    EmptyOperator(task_id='t{n}')" for n in range(tasks)] or ["    pass"]
    return "\n".join(lines) + "\n"


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
    return path


def write_zip(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def a_dag(
    dag_id: str, *, tasks: int = 1, pool: str = "default_pool", executor: str | None = None, **fields: object
) -> ParsedDag:
    common = {"operator": "EmptyOperator", "pool": pool, "executor": executor}
    spec = DagSpec(
        dag_id=dag_id,
        tasks=tuple(TaskSpec(task_id=f"t{n}", **common) for n in range(tasks)),  # type: ignore[arg-type]
        **fields,  # type: ignore[arg-type]
    )
    return parsed_dag(encode_spec(spec), spec)


def a_result(name: str, *dags: ParsedDag | str, digest: str = "d1", error: str | None = None) -> ParsedFile:
    """The outcome of a parse: DAGs (or their ids), or an error."""
    return ParsedFile(
        name=name,
        digest=digest,
        seconds=0.01,
        source=f"# source of {name} {digest}",
        dags=tuple(a_dag(d) if isinstance(d, str) else d for d in dags),
        error=FileError(type="ValueError", message=error, line=3) if error else None,
        sources={},
    )


def a_listing(*names: str, modules: dict[str, str] | None = None, **digests: str) -> Listing:
    """A listing of `names` (oldest first); `digests` by the name without `.py`, else "d1"."""
    files = {
        name: DagFile(name, Path("/dags") / name, digests.get(name.removesuffix(".py"), "d1"), mtime_ns=number)
        for number, name in enumerate(names)
    }
    return Listing(files=files, modules={n: f.digest for n, f in files.items()} | (modules or {}))
