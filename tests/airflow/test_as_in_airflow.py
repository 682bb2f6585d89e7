"""DAGs end here as they end in Airflow: compared with states that were recorded there by tools/airflow_oracle.py.

`oracle/shapes.json` has those of the DAG files in `shapes`. `oracle/VERSION.json` has those of Airflow's own examples,
whose files come from the released wheels, which are downloaded; so this runs only if AIOSCHED_TEST_EXAMPLES is set, in
the long tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from aiosched.authoring.dag.loader import load_file
from aiosched.executors.dag_test import run_dag_test

HERE: Final = Path(__file__).parent
SECONDS: Final = 300.0  # how long one run may take
ALIKE: Final = 0.95  # of the DAGs have to end as in Airflow
LIBRARIES: Final = ["dill"]  # what Airflow installs with itself, and its examples use


def download(packages: dict[str, str], folder: Path) -> Path:
    """A folder with the example files of these packages and their versions, and what else they import."""
    wheels, files = folder / "wheels", folder / "files"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels)]
    subprocess.run([*pip, *(f"{name}=={version}" for name, version in packages.items())], check=True)
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", str(files), *LIBRARIES], check=True)
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(files, [name for name in archive.namelist() if "/example_dags/" in name])
    return files


def differs(expected: dict[str, Any], state: str, found: dict[str, str]) -> str | None:
    """What differs from Airflow when a run ends in `state` with the states `found`; None if nothing does."""
    if state != expected["state"]:
        return f"{state}, and {expected['state']} in Airflow"
    there = {name: task_state or "none" for name, task_state in expected["tasks"].items()}
    if expected.get("random"):
        here, drawn = Counter(found.values()), Counter(there.values())
        return None if here == drawn else f"{here}, and {drawn} in Airflow"
    wrong = {
        name: (found.get(name), there.get(name))
        for name in sorted({*found, *there})
        if found.get(name) != there.get(name)
    }
    return f"(here, in Airflow): {wrong}" if wrong else None


def run(dag_id: str, expected: dict[str, Any], date: str, files: Path, home: Path) -> str | None:
    """What differs from Airflow when `dags test` runs the DAG; None if nothing does."""
    command = [sys.executable, "-P", "-m", "aiosched", "dags", "test", dag_id, date, "-o", "json"]
    env = {
        **os.environ,
        "AIOSCHED_DAGS": str((files / expected["file"]).parent),
        "AIOSCHED_HOME": str(home / dag_id),
        "PYTHONPATH": str(files),
    }
    try:
        done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"does not end within {SECONDS:.0f} s"
    try:
        ended = json.loads(done.stdout)
    except ValueError:
        return next((line for line in done.stderr.splitlines() if "error" in line.lower()), "no answer")
    return differs(expected, ended["state"], {_name(**task): task["state"] for task in ended["tasks"]})


def _name(task_id: str, map_index: int, **_: Any) -> str:
    return task_id if map_index < 0 else f"{task_id}[{map_index}]"


SHAPES: Final = json.loads((HERE / "oracle" / "shapes.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("dag_id", SHAPES["dags"])
async def test_a_shape_ends_as_in_airflow(dag_id: str) -> None:
    expected = SHAPES["dags"][dag_id]
    loaded = load_file(HERE / "shapes" / expected["file"], root=HERE / "shapes")
    [dag] = [dag for dag in loaded.dags if dag.dag_id == dag_id]

    result = await run_dag_test(dag, logical_date=datetime.fromisoformat(SHAPES["logical_date"]))

    found = {_name(task.task_id, task.map_index): str(task.state or "none") for task in result.tasks}
    assert differs(expected, str(result.state), found) is None


def test_each_shape_is_recorded() -> None:
    files = sorted((HERE / "shapes").glob("*.py"))
    dag_ids = {dag.dag_id for file in files for dag in load_file(file, root=HERE / "shapes").dags}

    assert dag_ids == set(SHAPES["dags"])


@pytest.mark.skipif("AIOSCHED_TEST_EXAMPLES" not in os.environ, reason="AIOSCHED_TEST_EXAMPLES is not set")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("version", ["3.3.2"])
def test_examples_end_as_in_airflow(version: str, tmp_path: Path) -> None:
    recorded = json.loads((HERE / "oracle" / f"{version}.json").read_text(encoding="utf-8"))
    files = download(recorded["packages"], tmp_path)
    cases = {dag_id: states for dag_id, states in recorded["dags"].items() if "state" in states}
    assert cases

    answers = {
        dag_id: run(dag_id, states, recorded["logical_date"], files, tmp_path) for dag_id, states in cases.items()
    }

    different = {dag_id: answer for dag_id, answer in answers.items() if answer is not None}
    shown = "\n".join(f"{dag_id}: {answer}" for dag_id, answer in sorted(different.items()))
    print(f"{len(cases) - len(different)} of {len(cases)} end as in Airflow", shown, sep="\n")
    assert 1 - len(different) / len(cases) >= ALIKE, shown
