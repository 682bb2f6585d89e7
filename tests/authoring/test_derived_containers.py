"""Authors' own subclasses of DAG and TaskGroup: they take what they want and pass on the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiosched import DAG, EmptyOperator, TaskGroup
from aiosched.airflow.finder import install
from aiosched.authoring.dag.loader import LoadedFile, load_file
from aiosched.errors import DagError
from tests.undone_imports import undone_imports


class TeamDag(DAG):
    def __init__(self, *args: Any, team: str = "data", **kwargs: Any) -> None:
        self.team = team
        self.level = kwargs.pop("level", 1)
        kwargs.setdefault("tags", [team])
        super().__init__(*args, **kwargs)


class Named:
    def __init__(self, *args: Any, label_of: str, **kwargs: Any) -> None:
        self.label_of = label_of
        super().__init__(*args, **kwargs)


class Workflow(Named, TaskGroup):
    def __init__(self, connection: str, **kwargs: Any) -> None:
        self.connection = connection
        super().__init__(label_of=connection, **kwargs)


def test_a_dag_takes_variadic_parameters_and_passes_them_on() -> None:
    dag = TeamDag("d", schedule=None, team="shop", level=3, max_active_runs=2)

    assert (dag.dag_id, dag.team, dag.level, dag.tags, dag.max_active_runs) == ("d", "shop", 3, ["shop"], 2)
    assert dag.to_spec().max_active_runs == 2


def test_a_group_takes_parameters_of_its_own_and_of_a_mixin() -> None:
    with DAG("d"), Workflow("c", group_id="wf", tooltip="hi") as group:
        EmptyOperator(task_id="t")

    assert (group.connection, group.label_of, group.group_id, group.tooltip) == ("c", "c", "wf", "hi")
    assert list(group.children) == ["wf.t"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TeamDag("d", max_activ_runs=2), r"TeamDag\('d'\) has no parameter 'max_activ_runs'. Did you mean"),
        (lambda: TeamDag(schedule=None), "TeamDag needs 'dag_id'"),
        (lambda: Workflow("c", group="wf"), "has no parameter 'group'"),
        (lambda: Workflow("c"), "Workflow needs 'group_id'"),
    ],
)
def test_what_nobody_takes_is_named_with_its_line(make: Any, said: str) -> None:
    with DAG("outer"), pytest.raises(DagError, match=said) as refused:
        make()

    assert str(refused.value.file).endswith("test_derived_containers.py")


@pytest.fixture
def loading() -> Iterator[None]:
    install("compat")
    with undone_imports():
        yield


BASE = """
from airflow import DAG
class CompanyDag(DAG):
    def __init__(self, dag_id, owner_team, **kwargs):
        self.owner_team = owner_team
        super().__init__(dag_id, schedule_interval="@hourly", concurrency=3, **kwargs)
"""


def load(folder: Path, code: str) -> LoadedFile:
    (folder / "hbcompany.py").write_text(BASE)
    (folder / "file.py").write_text(code)
    return load_file(folder / "file.py", root=folder)


def test_a_base_class_of_a_team_may_pass_on_older_names(tmp_path: Path, loading: None) -> None:
    code = """
from datetime import datetime
from hbcompany import CompanyDag
with CompanyDag("d", "shop", start_date=datetime(2026, 1, 1), fail_stop=True) as dag:  # airflow
    pass
"""
    (dag,) = load(tmp_path, code).dags

    assert (dag.schedule, dag.max_active_tasks, dag.fail_fast) == ("@hourly", 3, True)
    assert (dag.catchup, dag.owner_team) == (True, "shop")  # Airflow 2's default, by the file of the base class
