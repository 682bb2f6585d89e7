"""Single functions of modules of Airflow of which nothing else is needed here."""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import socket
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from shutil import which
from typing import IO, Any, Final, NoReturn, TypeVar

from aiosched.airflow.configuration import conf
from aiosched.authoring.base.checks import fail
from aiosched.authoring.base.dependencies import cross_downstream
from aiosched.authoring.plugins.policies import LOCAL_SETTINGS
from aiosched.core.timetables import AssetOrTimeSchedule
from aiosched.errors import Refused

F = TypeVar("F", bound=Callable[..., object])

_LANGUAGES: Final = (
    "bash", "bash_command", "doc", "doc_json", "doc_md", "doc_rst", "doc_yaml", "hql", "html", "jinja", "json", "md",
    "mysql", "postgresql", "powershell", "py", "python_callable", "rst", "sql", "tsql", "yaml",
)  # fmt: skip


def DatasetOrTimeSchedule(*, timetable: Any, datasets: Any) -> AssetOrTimeSchedule:
    """`AssetOrTimeSchedule` under the name, and with the parameter, that Airflow 2 has."""
    return AssetOrTimeSchedule(timetable=timetable, assets=datasets)


def apply_defaults(function: F) -> F:
    """The function itself: default arguments apply to every operator, without the decorator of Airflow 1.10 and 2.0."""
    return function


def chain_linear(*elements: Any) -> None:
    """Connect each item with the next; of two neighbouring lists each item with each. An empty list is left out."""
    groups = [list(one) if isinstance(one, list | tuple) else [one] for one in elements]
    filled = [group for group in groups if group]
    if len(filled) < 2:
        raise fail("chain_linear() connects nothing: give it at least two tasks, or lists with tasks in them.")
    for left, right in pairwise(filled):
        cross_downstream(left, right)


def clear_task_instances(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise Refused: a task does not change rows."""
    raise Refused(
        "clear_task_instances() changes Airflow's database, and there is none here: clear by the client, the API "
        "(docs/api.md) or `aiosched tasks clear`."
    )


def trigger_dag(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise Refused: a task triggers runs by `TriggerDagRunOperator`, a program by the client."""
    raise Refused(
        "trigger_dag() writes to Airflow's database, and there is none here: use TriggerDagRunOperator in a DAG, the "
        "client (docs/api.md) in a program, or `aiosched dags trigger`."
    )


class Client:
    """Airflow's own client of its database: it can be made, and refuses every method."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is connected."""

    def trigger_dag(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise Refused."""
        trigger_dag()

    def __getattr__(self, name: str) -> NoReturn:
        raise Refused(f"The local client has no {name}() here: use aiosched's client or its REST API (docs/api.md).")


def mkdirs(path: str | Path, mode: int = 0o777) -> None:
    """Make a folder and those above it, unless they exist."""
    Path(path).mkdir(mode=mode, parents=True, exist_ok=True)


def list_py_file_paths(directory: str | Path | None, *_: Any, **__: Any) -> list[str]:
    """The Python files at a path and below it; none for None."""
    if directory is None:
        return []
    path = Path(directory)
    return [str(path)] if path.is_file() else sorted(str(one) for one in path.rglob("*.py"))


@contextlib.contextmanager
def open_maybe_zipped(fileloc: str, mode: str = "r") -> Iterator[IO[Any]]:
    """Open a file, or one in an archive: `/dags/archive.zip/file.py`."""
    archive, dot, member = fileloc.partition(".zip/")
    if dot and zipfile.is_zipfile(f"{archive}.zip"):
        with zipfile.ZipFile(f"{archive}.zip") as opened, opened.open(member) as found:
            yield found if "b" in mode else io.TextIOWrapper(found, encoding="utf-8")
    else:
        with Path(fileloc).open(mode) as file:
            yield file


def correct_maybe_zipped(fileloc: str | Path | None) -> str | Path | None:
    """The archive of a file in one: `/dags/archive.zip` of `/dags/archive.zip/file.py`. Others are as they were."""
    archive, dot, _ = str(fileloc).partition(".zip/")
    return f"{archive}.zip" if dot and zipfile.is_zipfile(f"{archive}.zip") else fileloc


def get_unique_dag_module_name(file_path: str) -> str:
    """A module name for a file, with the digest of its path."""
    digest = hashlib.sha1(file_path.encode(), usedforsecurity=False).hexdigest()
    return f"unusual_prefix_{digest}_{re.sub('[.-]', '_', Path(file_path).stem)}"


def process_subdir(subdir: str | None) -> str | None:
    """The absolute path of a folder, which may begin with `DAGS_FOLDER` or `~`."""
    if not subdir:
        return subdir
    return str(Path(subdir.replace("DAGS_FOLDER", conf.get("core", "dags_folder"))).expanduser().absolute())


def get_attr_renderer() -> dict[str, Callable[[Any], str]]:
    """How the languages of templates are shown, by name: as text. Operators look up which there are."""
    return dict.fromkeys(_LANGUAGES, str)


def get_host_ip_address() -> str:
    """The address of this machine."""
    return socket.gethostbyname(socket.getfqdn())


@dataclass(frozen=True, slots=True)
class AirflowParsingContext:
    """The DAG and the task for which the file is imported; None while all of its DAGs are read."""

    dag_id: str | None = None
    task_id: str | None = None


def get_parsing_context() -> AirflowParsingContext:
    """Neither DAG nor task: a file is imported once for all of its DAGs, also in workers, which keep it."""
    return AirflowParsingContext()


def is_venv_installed() -> bool:
    """Whether there is uv, virtualenv or venv."""
    return which("uv") is not None or which("virtualenv") is not None or find_spec("venv") is not None


def pod_mutation_hook(pod: Any) -> None:
    """Let `airflow_local_settings` change a pod before it is started, if it has a function of this name."""
    if (hook := getattr(sys.modules.get(LOCAL_SETTINGS), "pod_mutation_hook", None)) is not None:
        hook(pod)
