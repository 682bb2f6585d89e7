"""Records how Airflow's own example DAGs end in Airflow: the states that the comparison tests expect of aiosched.

    python3 -m venv /tmp/airflow && /tmp/airflow/bin/pip install apache-airflow==3.3.2 \
        apache-airflow-providers-standard apache-airflow-providers-common-sql
    python tools/airflow_oracle.py --airflow /tmp/airflow --output tests/airflow/oracle/3.3.2.json

Every DAG of the example files in that environment runs once with `airflow dags test` and a fixed logical date, in a
scratch home with its own SQLite database; afterwards the states of the run and of its task instances are read from it.
Only states, names of files and ids are written down; no file of Airflow is kept. Runs that need something that one
machine does not have are left out with the reason, and so are those that do not end in time. With --resume the states
that the output file has already are kept, and only the others are recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

LOGICAL_DATE: Final = "2026-01-05T00:00:00+00:00"  # a Monday
SECONDS: Final = 1200.0  # how long one run may take, also on a busy machine

# Run in Airflow's interpreter: the ids of the DAGs of each file, or why it cannot be read.
LIST: Final = """
import json, sys
try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:
    from airflow.models import DagBag
found = {}
for path in sys.argv[2:]:
    bag = DagBag(path)
    found[path] = {"dags": sorted(bag.dags), "error": "".join(bag.import_errors.values()).strip().splitlines()[-1:]}
with open(sys.argv[1], "w") as file:
    json.dump(found, file)
"""
FOLDERS: Final = (
    "airflow/example_dags",
    "airflow/providers/standard/example_dags",
    "airflow/providers/common/sql/example_dags",
)

# What one machine does not have: words in the log of a run that failed, and the reason that is written down.
MISSING: Final = {
    "Temporary failure in name resolution": "needs the internet",
    "Name or service not known": "needs the internet",
    "Failed to resolve": "needs the internet",
    "NameResolutionError": "needs the internet",
    "ConnectTimeout": "needs the internet",
    "No module named 'kubernetes'": "needs Kubernetes",
}


def main() -> None:
    """Read the options, run every DAG, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--airflow", type=Path, required=True, help="the virtual environment with Airflow")
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--resume", action="store_true", help="keep what the output file has")
    parser.add_argument("--only", nargs="*", help="only these DAG ids")
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(options.output.read_text(encoding="utf-8"))["dags"] if options.resume else {}
    with tempfile.TemporaryDirectory(prefix="airflow-oracle-") as home:
        for found in Oracle(options.airflow.absolute(), Path(home)).record(options.only, known):
            options.output.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


class Oracle:
    """One Airflow in one scratch home."""

    def __init__(self, environment: Path, home: Path) -> None:
        self._bin, self._home = environment / "bin", home
        self._database = home / "airflow.db"
        (self._site,) = environment.glob("lib/python*/site-packages")
        self._env = {
            "PATH": f"{self._bin}:{os.environ['PATH']}",
            "HOME": str(home),
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self._database}",
        }

    def record(self, only: list[str] | None, known: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The oracle: version, date, and for each DAG its states, or the reason why there are none; after each run."""
        self._run("db", "migrate", seconds=600)
        files = self._copy_files()
        ids = self._list(files)
        version = self._run("version").strip().splitlines()[-1]
        dags = {dag_id: states for dag_id, states in known.items() if "state" in states}
        self._run("dags", "reserialize", seconds=600)  # all of them: some trigger others
        errors = {self._name(path): found["error"][0] for path, found in ids.items() if found["error"]}
        for path, found in sorted(ids.items(), key=lambda item: len(item[1]["dags"])):  # the slowest files last
            for dag_id in found["dags"]:
                if dag_id in dags or (only and dag_id not in only):
                    continue
                began = time.monotonic()
                dags[dag_id] = {"file": self._name(path), **self._outcome(path, dag_id)}
                state = dags[dag_id].get("state") or dags[dag_id]["skipped"]
                print(f"{len(dags):4} {dag_id}: {state} ({time.monotonic() - began:.0f} s)", file=sys.stderr)
                yield {"airflow": version, "logical_date": LOGICAL_DATE, "dags": dags, "import_errors": errors}

    def _copy_files(self) -> list[Path]:
        """The example files in the scratch DAGs folder, which only this run has."""
        files: list[Path] = []
        for folder in FOLDERS:
            source = self._site / folder
            if source.is_dir():
                target = self._home / "dags" / folder
                shutil.copytree(source, target)
                files += sorted(path for path in target.rglob("*.py") if "plugins" not in path.parts)
                self._offer_plugins(source, folder.replace("/", "."))
        return [path for path in files if path.name != "__init__.py"]

    def _offer_plugins(self, folder: Path, package: str) -> None:
        """A file in the plugins folder that gives Airflow the plugins of the examples, under their own module names."""
        names = [path.stem for path in sorted(folder.glob("plugins/*.py")) if path.stem != "__init__"]
        if names:
            target = self._home / "plugins" / f"{package.replace('.', '_')}.py"
            target.parent.mkdir(exist_ok=True)
            target.write_text("".join(f"from {package}.plugins.{name} import *\n" for name in names))

    def _name(self, path: Path) -> str:
        return path.relative_to(self._home / "dags").as_posix()

    def _list(self, files: list[Path]) -> dict[Path, Any]:
        answer = self._home / "ids.json"
        command = [str(self._bin / "python"), "-c", LIST, str(answer), *map(str, files)]
        subprocess.run(command, env=self._env, check=True, capture_output=True, timeout=900)
        return {Path(path): found for path, found in json.loads(answer.read_text()).items()}

    def _outcome(self, path: Path, dag_id: str) -> dict[str, Any]:
        alone = self._home / "alone" / path.stem / path.name  # the command stores every DAG of its folder
        alone.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, alone)
        here = {"AIRFLOW__CORE__DAGS_FOLDER": str(alone.parent)}
        try:
            log = self._run("dags", "test", "--dagfile-path", str(alone), dag_id, LOGICAL_DATE, check=False, env=here)
        except subprocess.TimeoutExpired:
            return {"skipped": f"does not end within {SECONDS:.0f} s"}
        with closing(sqlite3.connect(self._database)) as database:
            run = database.execute("SELECT run_id, state FROM dag_run WHERE dag_id = ?", (dag_id,)).fetchall()
            if not run:
                return {"skipped": f"Airflow refuses it: {_last_error(log)}"}
            rows = database.execute(
                "SELECT task_id, map_index, state FROM task_instance WHERE dag_id = ? AND run_id = ?",
                (dag_id, run[-1][0]),
            ).fetchall()
        state = run[-1][1]
        if state != "success":
            reason = next((reason for words, reason in MISSING.items() if words in log), None)
            if reason is not None:
                return {"skipped": reason}
        if state not in ("success", "failed"):
            return {"skipped": f"its run stays {state}: {_last_error(log)}"}
        tasks = {task if index < 0 else f"{task}[{index}]": state for task, index, state in sorted(rows)}
        return {"state": state, "tasks": tasks}

    def _run(
        self,
        *arguments: str,
        check: bool = True,
        seconds: float = SECONDS,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """What an `airflow` command prints."""
        done = subprocess.run(
            [str(self._bin / "airflow"), *arguments],
            env={**self._env, **(env or {})},
            check=check,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
        )
        return done.stdout


def _last_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if "Error" in line or "Exception" in line]
    return lines[-1][:200] if lines else "it says no reason"


if __name__ == "__main__":
    main()
