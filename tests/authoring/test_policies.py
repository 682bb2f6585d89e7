"""Cluster policies: what they change, refuse, leave out, and what of them cannot be followed."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from aiosched.airflow.finder import install
from aiosched.authoring.dag.loader import LoadedFile, load_file
from aiosched.authoring.plugins import loading
from aiosched.authoring.plugins.loading import loaded_plugins
from aiosched.errors import DagError
from aiosched.executors.dag_test import run_dag_test
from tests.undone_imports import without_plugins

DAGS = """
from airflow import DAG
from airflow.operators.bash import BashOperator
with DAG("a", schedule=None, tags=["x"]) as a:
    BashOperator(task_id="t", bash_command="echo {{ ti.queue }}")
    BashOperator.partial(task_id="m").expand(bash_command=["a", "b"])
with DAG("b", schedule=None) as b:
    BashOperator(task_id="t", bash_command="true")
"""


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No plugins and policies before and after a test, and none of this machine."""
    install("compat")
    with without_plugins(monkeypatch):
        yield


def load(folder: Path, policies: str, code: str = DAGS) -> LoadedFile:
    (folder / "airflow_local_settings.py").write_text(textwrap.dedent(policies))
    path = folder / "file.py"
    path.write_text(code)
    return load_file(path, root=folder)


def specs(loaded: LoadedFile) -> dict[str, Any]:
    return {dag.dag_id: dag.to_spec() for dag in loaded.dags}


def test_policies_change_dags_and_then_their_tasks(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        """
        def dag_policy(dag):
            dag.tags = {*dag.tags, "seen"}
        def task_policy(task):
            assert "seen" in task.dag.tags
            if task.task_type == "BashOperator":
                task.queue, task.retries = "shell", 3
        """,
    )

    assert loaded.warnings == []
    found = specs(loaded)
    assert set(found["a"].tags) == {"x", "seen"}
    assert {(task.queue, task.retries) for spec in found.values() for task in spec.tasks} == {("shell", 3)}


def test_the_policy_of_airflow_1_10_is_about_tasks(tmp_path: Path) -> None:
    found = specs(load(tmp_path, "def policy(task):\n    task.pool = 'all'"))

    assert {task.pool for task in found["a"].tasks} == {"all"}


@pytest.mark.parametrize(
    ("policies", "what"),
    [
        ("def dag_policy(dag):\n    if not dag.tags: raise AirflowClusterPolicyViolation('no tags')",
         "AirflowClusterPolicyViolation: no tags"),
        ("def task_policy(task):\n    if task.dag_id == 'b': raise AirflowClusterPolicyViolation('no')",
         "AirflowClusterPolicyViolation: no"),
        ("def dag_policy(dag):\n    if dag.dag_id == 'b': dag.missing_attribute", "AttributeError: "),
        ("def task_instance_mutation_hook(ti):\n    if ti.dag_id == 'b': raise ValueError('never')",
         "ValueError: never"),
    ],
)  # fmt: skip
def test_what_a_policy_raises_refuses_the_file_at_the_dag(tmp_path: Path, policies: str, what: str) -> None:
    with pytest.raises(DagError, match="refuses DAG 'b'") as refused:
        load(tmp_path, f"from airflow.exceptions import AirflowClusterPolicyViolation\n{policies}")

    assert what in str(refused.value)
    assert refused.value.line == DAGS.splitlines().index('with DAG("b", schedule=None) as b:') + 1


def test_a_skipped_dag_is_left_out_and_said(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        """
        from airflow.exceptions import AirflowClusterPolicySkipDag
        def dag_policy(dag):
            if "x" in dag.tags:
                raise AirflowClusterPolicySkipDag("only for beta")
        """,
    )

    assert list(specs(loaded)) == ["b"]
    assert [line.partition(": ")[2] for line in loaded.warnings] == [
        "AuthoringWarning: DAG 'a' is left out by a cluster policy: only for beta"
    ]


@pytest.mark.parametrize(
    "broken", ["import nowhere_at_all", "def dag_policy(", "raise SystemExit(0)", "__all__ = ['missing']"]
)
def test_a_policy_that_cannot_be_imported_refuses_every_file(tmp_path: Path, broken: str) -> None:
    with pytest.raises(DagError, match=r"cluster policies are broken.*airflow_local_settings cannot be imported"):
        load(tmp_path, broken)

    assert loaded_plugins().problems[0].is_error


def test_what_has_no_effect_is_a_problem_that_doctor_shows(tmp_path: Path) -> None:
    load(tmp_path, "def pod_mutation_hook(pod): ...\ndef get_dagbag_import_timeout(path): return 1\nOTHER = 1")

    assert sorted(problem.text.partition(" has no effect")[0] for problem in loaded_plugins().problems) == [
        "get_dagbag_import_timeout",
        "pod_mutation_hook",
    ]


def test_the_hook_for_pods_is_called_by_operators_that_make_pods(tmp_path: Path) -> None:
    from airflow.settings import pod_mutation_hook  # type: ignore[import-not-found]

    pod: dict[str, str] = {}
    pod_mutation_hook(pod)  # there is none
    load(tmp_path, "def pod_mutation_hook(pod): pod['team'] = 'a'")
    pod_mutation_hook(pod)

    assert pod == {"team": "a"}


def test_only_the_names_in_all_are_policies(tmp_path: Path) -> None:
    found = specs(load(tmp_path, "__all__ = []\ndef task_policy(task):\n    task.pool = 'all'"))

    assert {task.pool for task in found["a"].tasks} == {"default_pool"}


ENTRY_POINT = """
from airflow.policies import hookimpl
class Rules:
    @hookimpl
    def task_policy(self, task):
        task.pool = "rules"
    @hookimpl(tryfirst=True)
    def dag_policy(self):
        seen.append("dag")
    def task_instance_mutation_hook(self, task_instance):
        raise AssertionError("not marked")
seen = []
rules = Rules()
"""


def test_an_installed_package_brings_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hbrules.py").write_text(ENTRY_POINT)
    entry_point = EntryPoint("rules", "hbrules:rules", "airflow.policy")
    monkeypatch.setattr(loading, "plugin_entry_points", lambda: (entry_point,))

    found = specs(load(tmp_path, "def task_policy(task):\n    task.queue = 'local'"))

    assert {(task.pool, task.queue) for task in found["a"].tasks} == {("rules", "local")}
    assert sys.modules["hbrules"].seen == ["dag", "dag"]


def test_the_hook_sets_queue_and_pool_of_all_tries(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        """
        def task_instance_mutation_hook(task_instance):
            assert task_instance.task_id == task_instance.task.task_id
            if task_instance.dag_id == "a":
                task_instance.queue, task_instance.pool_slots = "big", 2
        """,
    )

    assert loaded.warnings == []
    found = specs(loaded)
    assert {(task.queue, task.pool_slots) for task in found["a"].tasks} == {("big", 2)}
    assert {(task.queue, task.pool_slots) for task in found["b"].tasks} == {("default", 1)}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("if ti.try_number >= 1: ti.queue = 'retry'", "sets queue of task"),
        ("if ti.try_number > 1: ti.pool = 'retry'", "sets pool of task"),
        ("ti.priority_weight = 5", "sets priority_weight of task"),
        ("if ti.dag_run.run_type == 'backfill': ti.queue = 'slow'", "asks for 'dag_run' of a task instance"),
        ("if ti.run_id.startswith('manual'): ti.queue = 'fast'", "asks for 'run_id' of a task instance"),
    ],
)
def test_what_the_hook_decides_in_a_run_only_is_said(tmp_path: Path, body: str, said: str) -> None:
    loaded = load(tmp_path, f"def task_instance_mutation_hook(ti):\n    {body}")

    assert len(loaded.warnings) == 3  # one for each task
    assert all(said in line for line in loaded.warnings)
    assert {task.queue for spec in specs(loaded).values() for task in spec.tasks} == {"default"}


async def test_the_hook_is_called_before_an_attempt_and_changes_its_task_only(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        """
        def task_instance_mutation_hook(ti):
            if getattr(ti, "run_id", None) is not None:
                ti.queue = "has no effect now"
                ti.task.bash_command = f"echo {ti.dag_id} {ti.try_number} {ti.dag_run.run_type}"
        """,
    )

    run = await run_dag_test(loaded.dags[1])

    assert run.xcoms["t"]["return_value"] == "b 1 manual"
    assert loaded.dags[1].get_task("t").bash_command == "true"


async def test_what_the_hook_raises_fails_the_attempt(tmp_path: Path) -> None:
    hook = "def task_instance_mutation_hook(ti):\n    if hasattr(ti, 'run_id'): raise ValueError('no')"
    loaded = load(tmp_path, hook)

    run = await run_dag_test(loaded.dags[1])

    assert run.task("t").state == "failed"
    assert "ValueError: no" in str(run.task("t").reason)


def test_a_process_that_only_reads_files_imports_no_plugin_but_the_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hbslow.py").write_text("raise AssertionError('imported')\n")
    entry_points = (EntryPoint("slow", "hbslow", "aiosched.plugins"),)
    monkeypatch.setattr(loading, "plugin_entry_points", lambda: entry_points)
    (tmp_path / "airflow_local_settings.py").write_text("def task_policy(task):\n    task.pool = 'all'\n")
    (tmp_path / "file.py").write_text(DAGS)

    found = specs(load_file(tmp_path / "file.py", root=tmp_path, runs_tasks=False))

    assert {task.pool for task in found["a"].tasks} == {"all"}
    assert "hbslow" not in sys.modules
