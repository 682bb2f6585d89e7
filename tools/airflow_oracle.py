"""Records how Airflow's own example DAGs end in Airflow: the states that the comparison tests expect of aiosched.

    python3 -m venv /tmp/airflow && /tmp/airflow/bin/pip install apache-airflow==3.3.2 \
        apache-airflow-providers-standard apache-airflow-providers-common-sql
    python tools/airflow_oracle.py --airflow /tmp/airflow --output tests/airflow/oracle/3.3.2.json

Every DAG of the example files in that environment runs once with `airflow dags test` and a fixed logical date, in a
scratch home with its own SQLite database; afterwards the states of the run and of its task instances are read from it.
Only states, names of files and ids are written down; no file of Airflow is kept. One process runs one DAG after the
other; a DAG that does not succeed there runs again in a process of its own, and that counts.

Runs that need something that one machine does not have are left out with the reason, and so are those that do not end
in time. With --resume the states that the output file has already are kept, and only the others are recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

LOGICAL_DATE: Final = "2026-01-05T00:00:00+00:00"  # a Monday

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
# Run in Airflow's interpreter: `airflow` commands one after the other, as lines of JSON come in. One process for all of
# them, since most of what a command costs is imports and the first request to the API inside of it.
WORK: Final = """
import json, os, sys, traceback
asked, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
before = dict(os.environ)
from airflow import settings
from airflow.__main__ import main
for line in asked:
    command = json.loads(line)
    log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1), os.dup2(log, 2), os.close(log)
    settings.DAGS_FOLDER = command["folder"]
    sys.argv = ["airflow", *command["arguments"]]
    try:
        main()
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush(), sys.stderr.flush()
    os.environ.clear(), os.environ.update(before)
    print("done", file=answers, flush=True)
"""
PACKAGES: Final = {
    "apache-airflow-core": "airflow/example_dags",
    "apache-airflow-providers-standard": "airflow/providers/standard/example_dags",
    "apache-airflow-providers-common-sql": "airflow/providers/common/sql/example_dags",
}

# A file that draws lots: its tasks are compared by how many have each state.
RANDOM: Final = re.compile(r"^\s*(import random|from random )", re.MULTILINE)
# What one machine does not have: words in the log of a run that failed, and the reason that is written down.
MISSING: Final = {
    "Temporary failure in name resolution": "needs the internet",
    "Name or service not known": "needs the internet",
    "Failed to resolve": "needs the internet",
    "NameResolutionError": "needs the internet",
    "ConnectTimeout": "needs the internet",
    "No module named 'kubernetes'": "needs Kubernetes",
    "ModuleNotFoundError: No module named": "needs a package that Airflow does not install",
}


def main() -> None:
    """Read the options, run every DAG, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--airflow", type=Path, required=True, help="the virtual environment with Airflow")
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--files", type=Path, help="a folder with other DAG files than Airflow's examples")
    parser.add_argument("--resume", action="store_true", help="keep what the output file has")
    parser.add_argument("--seconds", type=float, default=600, help="how long one run may take: some wait for ever")
    parser.add_argument("--only", nargs="*", help="only these DAG ids")
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(options.output.read_text(encoding="utf-8"))["dags"] if options.resume else {}
    with tempfile.TemporaryDirectory(prefix="airflow-oracle-") as home:
        oracle = Oracle(options.airflow.absolute(), Path(home), options.seconds)
        for found in oracle.record(options.files, options.only, known):
            options.output.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


class Oracle:
    """One Airflow in one scratch home."""

    def __init__(self, environment: Path, home: Path, seconds: float) -> None:
        self._bin, self._home, self._seconds = environment / "bin", home, seconds
        self._database, self._unused = home / "airflow.db", home / "unused.db"
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
        self._worker = Worker(self._bin / "python", self._env, home / "command.log")

    def record(self, own: Path | None, only: list[str] | None, known: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The oracle: version, date, and for each DAG its states, or the reason why there are none; after each run."""
        self._run("db", "migrate")
        files = self._copy_examples() if own is None else self._copy(own, "")
        ids = self._list(files)
        packages = self._packages()
        dags = {dag_id: states for dag_id, states in known.items() if "state" in states}
        self._run("dags", "reserialize")  # all of them: some trigger others
        with closing(sqlite3.connect(self._database)) as database, closing(sqlite3.connect(self._unused)) as unused:
            database.backup(unused)
        errors = {self._name(path): found["error"][0] for path, found in ids.items() if found["error"]}
        for path, found in sorted(ids.items(), key=lambda item: len(item[1]["dags"])):  # the slowest files last
            for dag_id in found["dags"]:
                if dag_id in dags or (only and dag_id not in only):
                    continue
                began = time.monotonic()
                dags[dag_id] = {"file": self._name(path), **self._outcome(path, dag_id)}
                state = dags[dag_id].get("state") or dags[dag_id]["skipped"]
                print(f"{len(dags):4} {dag_id}: {state} ({time.monotonic() - began:.0f} s)", file=sys.stderr)
                yield {"packages": packages, "logical_date": LOGICAL_DATE, "dags": dags, "import_errors": errors}
        self._worker.stop()

    def _copy_examples(self) -> list[Path]:
        """Airflow's example files in the scratch DAGs folder."""
        files: list[Path] = []
        for folder in PACKAGES.values():
            source = self._site / folder
            if source.is_dir():
                files += self._copy(source, folder)
                self._offer_plugins(source, folder.replace("/", "."))
        return files

    def _copy(self, source: Path, folder: str) -> list[Path]:
        """The DAG files of a folder in the scratch DAGs folder, which only this run has."""
        target = self._home / "dags" / folder
        shutil.copytree(source, target)
        files = sorted(path for path in target.rglob("*.py") if "plugins" not in path.parts)
        return [path for path in files if path.name != "__init__.py"]

    def _offer_plugins(self, folder: Path, package: str) -> None:
        """A file in the plugins folder that gives Airflow the plugins of the examples, under their own module names."""
        names = [path.stem for path in sorted(folder.glob("plugins/*.py")) if path.stem != "__init__"]
        if names:
            target = self._home / "plugins" / f"{package.replace('.', '_')}.py"
            target.parent.mkdir(exist_ok=True)
            target.write_text("".join(f"from {package}.plugins.{name} import *\n" for name in names))

    def _packages(self) -> dict[str, str]:
        """The packages that the examples come from, with their versions."""
        found = {it.metadata["Name"]: it.version for it in distributions(path=[str(self._site)])}
        return {name: found[name] for name in PACKAGES if name in found}

    def _name(self, path: Path) -> str:
        return path.relative_to(self._home / "dags").as_posix()

    def _list(self, files: list[Path]) -> dict[Path, Any]:
        answer = self._home / "ids.json"
        command = [str(self._bin / "python"), "-c", LIST, str(answer), *map(str, files)]
        subprocess.run(command, env=self._env, check=True, capture_output=True, timeout=900)
        return {Path(path): found for path, found in json.loads(answer.read_text()).items()}

    def _outcome(self, path: Path, dag_id: str) -> dict[str, Any]:
        """How a run ends. One that does not succeed runs again in a process of its own, and that counts."""
        outcome = self._run_once(path, dag_id)
        if outcome.get("state") != "success" and "does not end" not in outcome.get("skipped", ""):
            self._worker.stop()
            outcome = self._run_once(path, dag_id)
        return outcome

    def _run_once(self, path: Path, dag_id: str) -> dict[str, Any]:
        alone = self._alone(path)
        self._forget_runs()
        command = ["dags", "test", "--dagfile-path", str(alone), dag_id, LOGICAL_DATE]
        log = self._worker.run(command, alone.parent, self._seconds)
        if log is None:
            return {"skipped": f"does not end within {self._seconds:.0f} s: {self._unfinished(dag_id)}"}
        with closing(sqlite3.connect(self._database)) as database:
            run = database.execute(
                "SELECT run_id, state FROM dag_run WHERE dag_id = ? ORDER BY id", (dag_id,)
            ).fetchall()
            if not run:
                return {"skipped": f"Airflow refuses it: {_last_error(log)}"}
            rows = database.execute(
                "SELECT task_id, map_index, state FROM task_instance WHERE dag_id = ? AND run_id = ?",
                (dag_id, run[-1][0]),
            ).fetchall()
        state = run[-1][1]
        if state != "success":
            reason = next((reason for words, reason in MISSING.items() if re.search(words, log)), None)
            if reason is not None:
                return {"skipped": reason}
        if state not in ("success", "failed"):
            return {"skipped": f"its run stays {state}: {_last_error(log)}"}
        tasks = {task if index < 0 else f"{task}[{index}]": state for task, index, state in sorted(rows)}
        lots = {"random": True} if RANDOM.search(path.read_text(encoding="utf-8")) else {}
        return {"state": state, "tasks": tasks, **lots}

    def _alone(self, path: Path) -> Path:
        """The file in a folder without other DAG files, since the command stores every DAG of its folder."""
        folder = self._home / "alone" / path.stem
        if not folder.exists():
            others = [it.name for it in path.parent.iterdir() if it.suffix == ".py" and it != path]
            shutil.copytree(path.parent, folder, ignore=shutil.ignore_patterns(*others))
        return folder / path.name

    def _forget_runs(self) -> None:
        """Make the database as it was when no DAG had run: no run depends on those before it, nor on their assets."""
        with closing(sqlite3.connect(self._unused)) as unused, closing(sqlite3.connect(self._database)) as database:
            unused.backup(database)

    def _unfinished(self, dag_id: str) -> str:
        """What a run waits for that does not end: its tasks that have begun and not ended, or wait for somebody."""
        with closing(sqlite3.connect(self._database)) as database:
            rows = database.execute(
                "SELECT task_id, operator, state FROM task_instance "
                "WHERE dag_id = ? AND state NOT IN "
                "('scheduled', 'success', 'failed', 'skipped', 'removed', 'upstream_failed') "
                "ORDER BY task_id",
                (dag_id,),
            ).fetchall()
        return ", ".join(f"{task} ({operator}) is {state}" for task, operator, state in rows) or "no task has begun"

    def _run(self, *arguments: str) -> str:
        """What an `airflow` command prints."""
        command = [str(self._bin / "airflow"), *arguments]
        return subprocess.run(command, env=self._env, check=True, capture_output=True, text=True, timeout=900).stdout


class Worker:
    """A process that runs one `airflow` command after the other, killed when one takes too long."""

    def __init__(self, python: Path, env: Mapping[str, str], log: Path) -> None:
        self._python, self._env, self._log = python, env, log
        self._process: subprocess.Popen[str] | None = None

    def run(self, arguments: list[str], folder: Path, seconds: float) -> str | None:
        """What the command prints, with that DAGs folder; None if it does not end, and the process is killed."""
        if self._process is None:
            self._process = subprocess.Popen(
                [str(self._python), "-c", WORK],
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        command = {"arguments": arguments, "folder": str(folder), "log": str(self._log)}
        print(json.dumps(command), file=self._process.stdin, flush=True)
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not ready or not self._process.stdout.readline():
            self.stop()
        return self._log.read_text(errors="replace") if ready else None

    def stop(self) -> None:
        """Kill the process and those that it has started; the next command gets a new one."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None


def _last_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if "Error" in line or "Exception" in line]
    return lines[-1][:200] if lines else "it says no reason"


if __name__ == "__main__":
    main()
