"""Mistakes are named at the line where they are written, also in decorators and in calls of several lines."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from aiosched.authoring.dag.loader import LoadedFile, load_file
from aiosched.errors import DagError

HEAD = (
    "from datetime import datetime\n"
    "from aiosched import DAG, BashOperator, EmptyOperator, chain, dag, task, task_group\n"
)


def load(folder: Path, text: str) -> LoadedFile:
    file = folder / "mistake.py"
    file.write_text(HEAD + textwrap.dedent(text))
    return load_file(file, root=folder)


IN_DECORATORS = {
    "unknown-of-dag": "@dag(\n    schedule=None,\n    cachup=False,  # here\n)\ndef d(): ...\nd()",
    "preset": "@dag(\n    catchup=False,\n    schedule='@dayly',  # here\n)\ndef d(): ...\n\nd()",
    "one-line": "@dag(schedule=5)  # here\ndef d(): ...\nd()",
    "id": "@dag(schedule=None,\n     dag_id='a b')  # here\ndef d(): ...\nd()",
    "unknown-of-task": ("@dag\ndef d():\n    @task(\n        pool='p',\n"
        "        retrys=3,  # here\n    )\n    def a(): ...\n    a()\nd()"),
    "value-of-task": "@dag\ndef d():\n    @task(retries='three')  # here\n    def a(): ...\n    a()\nd()",
    "rule": "@dag\ndef d():\n    @task(trigger_rule='all_sucess')  # here\n    def a(): ...\n    a()\nd()",
    "mapped": "@dag\ndef d():\n    @task(retries='three')  # here\n    def a(x): ...\n    a.expand(x=[1])\nd()",
    "override": "@dag\ndef d():\n    @task(retries=1)\n    def a(): ...\n    a.override(retries='x')()  # here\nd()",
    "under-override": ("@dag\ndef d():\n    @task(retries='x')  # here\n"
        "    def a(): ...\n    a.override(pool='p')()\nd()"),
    "options-elsewhere": ("OPTIONS = {'retries': 'x'}\n@dag\ndef d():\n"
        "    @task(**OPTIONS)  # here\n    def a(): ...\n    a()\nd()"),
    "operator": ("with DAG('d'):\n    BashOperator(\n        task_id='x',\n"
        "        bash_command='true',\n        retries='x',  # here\n    )"),
    "dag-object": "DAG(\n    'd',\n    schedule='* * *',  # here\n)",
}  # fmt: skip


@pytest.mark.parametrize("text", IN_DECORATORS.values(), ids=IN_DECORATORS.keys())
def test_an_error_about_an_argument_is_at_its_line(tmp_path: Path, text: str) -> None:
    line = next(n for n, each in enumerate((HEAD + text).splitlines(), 1) if "# here" in each)

    with pytest.raises(DagError) as raised:
        load(tmp_path, text)

    assert raised.value.line == line
    assert str(raised.value).endswith(f"(mistake.py:{line})") or f"mistake.py:{line})" in str(raised.value)


def test_an_error_about_the_call_stays_at_the_call(tmp_path: Path) -> None:
    with pytest.raises(DagError) as raised:
        load(tmp_path, "@dag\ndef d():\n    @task(retries=3)\n    def a(x): ...\n    a()\nd()")

    assert raised.value.line == 7


USED = {"a": "task", "b": "task", "g": "task_group"}


@pytest.mark.parametrize(
    "use",
    ["a >> b", "a << b", "[a] >> b()", "b() >> a", "b() >> [a]", "a.set_downstream(b)", "chain(a, b)", "g >> b()"],
    ids=str,
)
def test_what_makes_tasks_is_to_be_called_before_it_is_connected(tmp_path: Path, use: str) -> None:
    functions = "".join(f"    @{kind}\n    def {name}(): ...\n" for name, kind in USED.items())
    with pytest.raises(DagError, match=r"^(a|g) cannot be connected: .* makes one, not a task. Call it: (a|g)\(\)"):
        load(tmp_path, f"@dag\ndef d():\n{functions}    {use}\nd()")


WARNED = {
    "dag-not-called": ("@dag\ndef d(): ...", 3, "The function d is never called, so there is no DAG of it. Add `d()`"),
    "dag-with-options": ("@dag(\n    schedule=None)\ndef d(): ...", 3, "The function d is never called"),
    "task-not-called": (
        "@dag\ndef d():\n    @task(\n        pool='p')\n    def a(): ...\nd()", 5,
        "The task function a is never called, so DAG 'd' has no task of it. Call it: a().",
    ),
    "task-in-with": ("with DAG('d'):\n    @task\n    def a(): ...", 4, "The task function a is never called"),
    "task-without-dag": ("@task\ndef a(): ...\na()", 5, "Task 'a' belongs to no DAG, so it never runs."),
    "operator-without-dag": ("BashOperator(task_id='x', bash_command='true')", 3, "Task 'x' belongs to no DAG"),
    "dates": (
        "@dag(start_date=datetime(2025, 1, 2), end_date=datetime(2025, 1, 1))\ndef d(): ...\nd()", 3,
        "DAG 'd' never runs by its schedule: its end_date 2025-01-01",
    ),
    "dates-of-a-task": (
        "with DAG('d', start_date=datetime(2025, 1, 2)):\n    EmptyOperator(task_id='x', end_date='2025-01-01')", 4,
        "Task 'x' never runs by its schedule",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "said"), WARNED.values(), ids=WARNED.keys())
def test_what_has_no_effect_is_warned_of(tmp_path: Path, text: str, line: int, said: str) -> None:
    loaded = load(tmp_path, text)

    assert len(loaded.warnings) == 1, loaded.warnings
    assert f"mistake.py:{line}: AuthoringWarning: {said}" in loaded.warnings[0]


FINE = {
    "called": "@dag\ndef d():\n    @task\n    def a(): ...\n    a()\nd()",
    "mapped": "@dag\ndef d():\n    @task\n    def a(x): ...\n    a.expand(x=[1])\nd()",
    "partial": "@dag\ndef d():\n    @task\n    def a(x, y): ...\n    a.partial(y=1).expand(x=[1])\nd()",
    "overridden": "@dag\ndef d():\n    @task\n    def a(): ...\n    a.override(pool='p')()\nd()",
    "shared": "@task\ndef a(): ...\n@dag\ndef d():\n    a()\nd()",
    "called-in-a-loop": (
        "def make(n):\n    @dag(dag_id=f'd{n}')\n    def d(): ...\n    return d()\nfor n in range(3): make(n)"
    ),
    "renamed": "@dag\ndef d(): ...\nbuilt = d()",
    "joined-later": "x = BashOperator(task_id='x', bash_command='true')\ndag_ = DAG('d')\ndag_.add_task(x)",
    "dates": "@dag(start_date=datetime(2025, 1, 1), end_date=datetime(2025, 1, 1))\ndef d(): ...\nd()",
}


@pytest.mark.parametrize("text", FINE.values(), ids=FINE.keys())
def test_what_has_an_effect_is_not_warned_of(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text).warnings == []
