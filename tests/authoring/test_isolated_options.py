"""Branches, serializers and package indexes of functions that run with another interpreter."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from aiosched import DAG, BranchExternalPythonOperator, BranchPythonVirtualenvOperator, EmptyOperator, task
from aiosched.authoring.operators.python_env import ExternalPythonOperator, PythonVirtualenvOperator
from aiosched.authoring.operators.venvs import Environment
from aiosched.core.values.messages import SkipDecision
from aiosched.errors import AioschedError, BranchError, CommandFailed
from tests.authoring.authoring_builders import run_task


def choose(name: str) -> str:
    return name


def kind_of(logical_date: Any) -> Any:
    return type(logical_date).__module__


def make_adder() -> Any:
    return lambda number: number + 1


def branching(operator: Any) -> DAG:
    with DAG("d") as dag:
        operator >> [EmptyOperator(task_id="a"), EmptyOperator(task_id="b")]
    return dag


@pytest.mark.parametrize("kind", ["operator", "decorator"])
async def test_a_branch_in_another_interpreter_skips_what_it_does_not_follow(kind: str) -> None:
    with DAG("d") as dag:
        if kind == "operator":
            BranchExternalPythonOperator(task_id="t", python=sys.executable, python_callable=choose, op_args=["b"])
        else:
            task.branch_external_python(python=sys.executable, task_id="t")(choose)("b")
        branch = dag.task("t")
        branch >> [EmptyOperator(task_id="a"), EmptyOperator(task_id="b")]

    result, ti = await run_task(branch)

    assert result is None
    assert ti.skip_decision == SkipDecision(followed=("b",))
    assert branch.can_skip_downstream


async def test_a_branch_in_a_virtual_environment_may_follow_all(tmp_path: Path) -> None:
    with DAG("d") as dag:
        task.branch_virtualenv(venv_cache_path=str(tmp_path), task_id="t")(choose)("a")
        branch = dag.task("t")
        branch >> EmptyOperator(task_id="a")

    assert isinstance(branch, BranchPythonVirtualenvOperator)
    assert (await run_task(branch))[0] == "a"


async def test_a_branch_to_an_unknown_task_is_an_error() -> None:
    with DAG("d") as dag:
        BranchExternalPythonOperator(task_id="t", python=sys.executable, python_callable=choose, op_args=["c"])

    with pytest.raises(BranchError, match="'c', but the DAG 'd' has no such task"):
        await run_task(dag.task("t"))


# ---- serializers


@pytest.mark.slow
async def test_cloudpickle_takes_what_pickle_does_not() -> None:
    def operator(serializer: str) -> ExternalPythonOperator:
        return ExternalPythonOperator(
            task_id="t", python=sys.executable, python_callable=make_adder, serializer=serializer
        )

    adder, _ = await run_task(operator("cloudpickle"))

    assert adder(1) == 2
    with pytest.raises(CommandFailed):
        await run_task(operator("pickle"))


async def test_a_serializer_that_the_worker_does_not_have_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dill", None)
    operator = ExternalPythonOperator(task_id="t", python=sys.executable, python_callable=choose, serializer="dill")

    with pytest.raises(AioschedError, match="needs the package dill in the worker"):
        await run_task(operator)


@pytest.mark.parametrize(
    ("serializer", "given", "installed"),
    [
        ("dill", [], ("dill",)),
        ("dill", ["Dill>=0.3"], ("Dill>=0.3",)),
        ("cloudpickle", ["dill"], ("dill", "cloudpickle")),
        ("json", [], ()),
    ],
)
async def test_an_environment_gets_the_serializer(
    serializer: str, given: list[str], installed: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await environment(monkeypatch, serializer=serializer, requirements=given)).requirements == installed


# ---- dates and indexes


@pytest.mark.parametrize(("expected", "module"), [(True, "pendulum.datetime"), (False, "datetime")])
async def test_dates_are_those_of_pendulum_if_it_is_there(expected: bool, module: str) -> None:
    operator = ExternalPythonOperator(
        task_id="t", python=sys.executable, python_callable=kind_of, expect_pendulum=expected
    )

    assert (await run_task(operator))[0] == module


async def test_package_indexes_may_be_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIOSCHED_CONN_OURS", '{"host": "https://pypi.example/simple", "login": "me", "password": "s/t"}'
    )
    monkeypatch.setenv("AIOSCHED_CONN_OPEN", '{"host": "https://open.example/simple"}')

    made = await environment(
        monkeypatch, index_urls=["https://first.example"], index_urls_from_connection_ids=["ours", "open"]
    )

    assert made.index_urls == (
        "https://first.example",
        "https://me:s%2Ft@pypi.example/simple",
        "https://open.example/simple",
    )


async def test_a_connection_without_a_host_is_no_package_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOSCHED_CONN_OURS", '{"login": "me"}')

    with pytest.raises(AioschedError, match="connection 'ours' has no host"):
        await environment(monkeypatch, index_urls_from_connection_ids=["ours"])


async def environment(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Environment:
    """The environment that an operator would create."""
    made: list[Environment] = []

    async def ensure(wanted: Environment, *args: Any, **kwargs: Any) -> str:
        made.append(wanted)
        return sys.executable

    monkeypatch.setattr("aiosched.authoring.operators.python_env.ensure", ensure)
    operator = PythonVirtualenvOperator(task_id="t", python_callable=choose, **options)
    await operator.interpreter({})
    return made[0]
