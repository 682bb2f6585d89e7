"""Functions that run under another interpreter, and the environments that are made for them."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from aiosched import DAG, task
from aiosched.authoring.operators.python_env import ExternalPythonOperator, PythonVirtualenvOperator
from aiosched.authoring.operators.venvs import Environment, cache_folder
from aiosched.errors import AioschedError, CommandFailed, DagError, SkipTask
from tests.authoring.authoring_builders import run_task

HERE = datetime(2026, 1, 2, tzinfo=UTC)


def add(a, b=1):  # type: ignore[no-untyped-def]
    return a + b


async def add_later(a: int) -> int:
    import asyncio

    await asyncio.sleep(0)
    return a + 1


def echo(*args: Any, **kwargs: Any) -> Any:
    import sys

    print("said in", sys.executable)
    return {"args": args, "ds": kwargs["ds"], "at": kwargs["logical_date"], "has_ti": "ti" in kwargs}


def wants_ti(ti: Any) -> None: ...


def fails() -> None:
    raise ValueError("bad")


def leaves() -> None:
    import sys

    sys.exit(99)


def a_set_of_days() -> Any:
    import datetime

    return [{datetime.date(2026, 1, 2)}, datetime.timedelta(hours=1), datetime.time(1)]


def an_object() -> Any:
    return object()


def only_there(kind: str) -> Any:
    import collections
    import dataclasses
    import enum

    made = {
        "a dataclass": lambda: dataclasses.make_dataclass("OnlyThere", ["x"])(1),
        "text": lambda: type("OnlyThere", (str,), {})("a"),
        "a number": lambda: enum.IntEnum("OnlyThere", "A").A,  # type: ignore[attr-defined] # made there
        "a named tuple": lambda: collections.namedtuple("OnlyThere", "a")(1),
        "a dict": lambda: type("OnlyThere", (dict,), {})(a=1),
    }
    return {"in": [made[kind]()]}


def join(path: Any, name: str) -> Any:
    return path / name


def external(function: Callable[..., Any], **options: Any) -> ExternalPythonOperator:
    return ExternalPythonOperator(task_id="t", python=sys.executable, python_callable=function, **options)


async def result_of(function: Callable[..., Any], **options: Any) -> Any:
    return (await run_task(external(function, **options)))[0]


async def test_a_function_gets_its_arguments_and_gives_its_result_back() -> None:
    assert await result_of(add, op_args=[2], op_kwargs={"b": 3}) == 5
    assert await result_of(add, op_args=["{{ ds }}"], op_kwargs={"b": "!"}) == "2026-01-02!"
    assert await result_of(add_later, op_args=[1]) == 2


VALUES: list[Any] = [
    (1, [2]),
    {3},
    frozenset({4}),
    {5: "five", (1, 2): None},
    Decimal("1.50"),
    UUID(int=1),
    b"\xff",
    bytearray(b"a"),
    1 + 2j,
    range(3),
    2**70,
    float("inf"),
    datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Amsterdam"), fold=1),
    time(1, tzinfo=UTC),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET")),
    [True, 1, 1.0, -0.0, None, "a\0b"],
    timedelta(days=-1, microseconds=1),
    {"$aiosched": "tuple", "value": [1]},
    {"__date__": "2026-01-01"},
]


async def test_types_of_python_come_back_from_another_interpreter() -> None:
    assert repr(await result_of(add, op_args=[VALUES], op_kwargs={"b": VALUES})) == repr(VALUES + VALUES)


@pytest.mark.parametrize("kind", ["a dataclass", "text", "a number", "a named tuple", "a dict"])
async def test_a_class_that_is_only_over_there_fails_the_task(kind: str) -> None:
    with pytest.raises(CommandFailed, match="the function returned a OnlyThere, which JSON cannot hold"):
        await result_of(only_there, op_args=[kind])


async def test_instants_and_durations_travel_both_ways() -> None:
    assert await result_of(add, op_args=[HERE], op_kwargs={"b": timedelta(days=1)}) == HERE + timedelta(days=1)
    assert await result_of(a_set_of_days) == [{HERE.date()}, timedelta(hours=1), HERE.replace(hour=1).time()]


async def test_of_the_context_it_gets_what_is_plain() -> None:
    found = await result_of(echo, op_args=[1])

    assert found == {"args": (1,), "ds": "2026-01-02", "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "has_ti": False}
    with pytest.raises(AioschedError, match="'ti' of the context cannot go to another interpreter"):
        await result_of(wants_ti)


async def test_with_pickle_other_values_travel_too() -> None:
    assert await result_of(join, op_args=[Path("a"), "b"], serializer="pickle") == Path("a/b")
    with pytest.raises(TypeError, match=r"arguments has a value of the kind 'path', which another interpreter cannot"):
        await result_of(join, op_args=[Path("a"), "b"])


async def test_an_error_over_there_fails_the_task_with_its_last_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with pytest.raises(CommandFailed, match=r"ended with exit code 1\. Last line: 'ValueError: bad'"):
        await result_of(fails)

    assert "Traceback" in caplog.text
    with pytest.raises(CommandFailed, match="the function returned a object, which JSON cannot hold"):
        await result_of(an_object)


async def test_an_exit_code_may_mean_skip() -> None:
    with pytest.raises(SkipTask):
        await result_of(leaves, skip_on_exit_code=[98, 99])
    with pytest.raises(CommandFailed, match="exit code 99"):
        await result_of(leaves)


async def test_variables_of_the_environment_are_chosen() -> None:
    def home(name: str) -> Any:
        import os

        return [os.environ.get(name), "PATH" in os.environ]

    assert await result_of(home, op_args=["A"], env_vars={"A": "b"}) == ["b", True]
    assert await result_of(home, op_args=["A"], env_vars={"A": "b"}, inherit_env=False) == ["b", False]


async def test_an_interpreter_that_is_not_there_is_named() -> None:
    operator = ExternalPythonOperator(task_id="t", python="/nowhere/python", python_callable=add, op_args=[1])

    with pytest.raises(AioschedError, match="no interpreter '/nowhere/python'"):
        await run_task(operator)


def test_only_a_function_with_a_source_can_travel() -> None:
    for function in (len, lambda: 1):
        with pytest.raises(DagError, match="only a function made by `def`") as caught:
            external(function)
        assert caught.value.file == __file__


# ---- environments


def where() -> Any:
    import sys

    return [sys.prefix, sys.prefix != sys.base_prefix]


async def test_an_environment_is_made_once_and_used_again(tmp_path: Path) -> None:
    def operator(**options: Any) -> PythonVirtualenvOperator:
        return PythonVirtualenvOperator(
            task_id="t", python_callable=where, venv_cache_path=tmp_path, requirements=[], **options
        )

    (first, isolated), _ = await run_task(operator())
    made = Path(first, ".ready").stat().st_mtime_ns  # noqa: ASYNC240
    again = [found for (found, _), _ in await asyncio.gather(*(run_task(operator()) for _ in range(3)))]
    (other, _), _ = await run_task(operator(system_site_packages=False))

    assert isolated
    assert again == [first] * 3
    assert Path(first, ".ready").stat().st_mtime_ns == made  # noqa: ASYNC240
    assert Path(first).parent == Path(other).parent == tmp_path
    assert first != other


async def test_a_broken_environment_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / f"venv-{Environment().digest}"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_text("half made")

    operator = PythonVirtualenvOperator(task_id="t", python_callable=where, venv_cache_path=tmp_path)

    assert (await run_task(operator))[0][0] == str(folder)


@pytest.mark.slow
async def test_requirements_that_cannot_be_had_fail_the_task(tmp_path: Path) -> None:
    operator = PythonVirtualenvOperator(
        task_id="t", python_callable=where, venv_cache_path=tmp_path,
        requirements="# ours\n/nowhere/package.whl\n", pip_install_options=["--no-index"],
    )  # fmt: skip

    with pytest.raises(CommandFailed, match="A virtual environment cannot be created: it ended with exit code 1"):
        await run_task(operator)


def test_environments_are_told_apart_by_all_that_they_are_made_of() -> None:
    digests = {
        one.digest
        for one in (
            Environment(),
            Environment(requirements=("a",)),
            Environment(requirements=("a", "b")),
            Environment(system_site_packages=False),
            Environment(index_urls=("http://x",)),
            Environment(python=sys.executable),
        )
    }

    assert len(digests) == 6
    with pytest.raises(AioschedError, match=r"no interpreter 'python9\.9'"):
        Environment(python="9.9").interpreter()


def test_the_cache_lies_where_caches_lie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert cache_folder() == tmp_path / "aiosched" / "venvs"


# ---- decorators


async def test_decorated_functions_run_elsewhere_too(tmp_path: Path) -> None:
    with DAG("d", schedule=None) as dag:

        @task
        def source() -> int:
            return 4

        @task.external_python(python=sys.executable)
        def double(x: int) -> int:
            return x * 2

        @task.virtualenv(venv_cache_path=str(tmp_path))
        def where_am_i() -> bool:
            import sys

            return sys.prefix != sys.base_prefix

        double(source())
        where_am_i()

    assert dag.task("double").upstream_task_ids == {"source"}
    assert (await run_task(dag.task("double"), xcoms={("source", "return_value"): {-1: 4}}))[0] == 8
    assert (await run_task(dag.task("where_am_i")))[0] is True


async def test_what_a_function_returns_is_a_template_only_if_asked_for() -> None:
    """Text from outside, quoted for the shell, could otherwise become a command of its own."""
    from_outside = "{{ run_id }}'; exit 1; '"
    with DAG("d", schedule=None) as dag:

        @task.bash(env={"WHO": "{{ dag.dag_id }}"})
        def plain(ds: Any = None) -> str:
            return f"echo {shlex.quote(from_outside)} $WHO {ds}"

        @task.bash(render_returned=True)
        def template(ds: Any = None) -> str:
            return f"echo {ds} {{{{ run_id }}}}"

        plain()
        template()

    assert (await run_task(dag.task("plain")))[0] == "{{ run_id }}'; exit 1; ' d 2026-01-02"
    assert (await run_task(dag.task("template")))[0] == "2026-01-02 manual__1"


async def test_a_function_may_return_a_command() -> None:
    with DAG("d", schedule=None) as dag:

        @task.bash(env={"WHO": "{{ dag.dag_id }}"})
        def greet(word: str, ds: Any = None) -> str:
            return f"echo {word} $WHO {ds}"

        @task.bash
        async def later() -> str:
            return "exit 99"

        greet("hello")
        later()

    assert (await run_task(dag.task("greet")))[0] == "hello d 2026-01-02"
    with pytest.raises(SkipTask):
        await run_task(dag.task("later"))


async def test_a_function_that_returns_no_command_fails_its_task() -> None:
    with DAG("d", schedule=None) as dag:

        @task.bash
        def nothing() -> Any:
            return None

        nothing()

    with pytest.raises(CommandFailed, match="must return a command, not None"):
        await run_task(dag.task("nothing"))
