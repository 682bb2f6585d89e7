"""Airflow's own example DAGs end here as they end in Airflow: compared with states that were recorded there.

`oracle/VERSION.json` is made by tools/airflow_oracle.py. The files come from the released wheels, which are downloaded;
so this runs only if AIOSCHED_TEST_EXAMPLES is set, in the long tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

ORACLE: Final = Path(__file__).parent / "oracle"
SECONDS: Final = 300.0  # how long one run may take
ALIKE: Final = 0.95  # of the DAGs have to end as in Airflow
AT_ONCE: Final = 2

pytestmark = pytest.mark.skipif(
    "AIOSCHED_TEST_EXAMPLES" not in os.environ, reason="AIOSCHED_TEST_EXAMPLES is not set: it downloads wheels"
)


def download(version: str, folder: Path) -> Path:
    """The example files of that Airflow and of its providers, below a folder that is no installed Airflow."""
    wheels, files = folder / "wheels", folder / "files"
    packages = [
        f"apache-airflow-core=={version}",
        "apache-airflow-providers-standard",
        "apache-airflow-providers-common-sql",
    ]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), *packages], check=True
    )
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(files, [name for name in archive.namelist() if "/example_dags/" in name])
    return files


def differs(dag_id: str, expected: dict[str, Any], date: str, files: Path, home: Path) -> str | None:
    """What differs from Airflow when the DAG runs here; None if nothing does."""
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
        found = json.loads(done.stdout)
    except ValueError:
        return (done.stderr.strip().splitlines() or ["no answer"])[-1]
    tasks = {
        task["task_id"] if task["map_index"] < 0 else f"{task['task_id']}[{task['map_index']}]": task["state"]
        for task in found["tasks"]
    }
    if found["state"] != expected["state"]:
        return f"{found['state']}, and {expected['state']} in Airflow"
    wrong = {
        name: (tasks.get(name), state)
        for name, state in expected["tasks"].items()
        if tasks.get(name) != (state or "none")
    }
    return f"(here, in Airflow): {wrong}" if wrong else None


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("oracle", sorted(ORACLE.glob("*.json")), ids=lambda path: path.stem)
def test_examples_end_as_in_airflow(oracle: Path, tmp_path: Path) -> None:
    recorded = json.loads(oracle.read_text(encoding="utf-8"))
    files = download(recorded["airflow"], tmp_path)
    cases = {dag_id: states for dag_id, states in recorded["dags"].items() if "state" in states}
    assert cases

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(
            lambda each: differs(each[0], each[1], recorded["logical_date"], files, tmp_path), cases.items()
        )
        different = {dag_id: answer for dag_id, answer in zip(cases, answers, strict=True) if answer is not None}

    shown = "\n".join(f"{dag_id}: {answer}" for dag_id, answer in sorted(different.items()))
    print(shown)
    assert 1 - len(different) / len(cases) >= ALIKE, shown
