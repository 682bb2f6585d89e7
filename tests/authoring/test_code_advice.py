"""What reading the code and the templates of tasks tells before they run, and what it must not say."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from aiosched.authoring.dag.loader import load_file
from aiosched.authoring.decorators.code_advice import code_advice

HEAD = """\
import asyncio, subprocess, time
import time as clock
from time import sleep
from aiosched import DAG, BashOperator, Param, dag, get_current_context, task
"""


def advice_on(folder: Path, text: str) -> list[tuple[int, str]]:
    file = folder / "tasks.py"
    file.write_text(HEAD + textwrap.dedent(text))
    said = [one.removeprefix(f"{file}:").partition(": AuthoringWarning: ") for one in code_advice(loaded(file))]
    return [(int(line), text) for line, _, text in said]


def loaded(file: Path) -> list:
    return load_file(file, root=file.parent).dags


def in_dag(body: str, *, options: str = "'d'") -> str:
    return f"with DAG({options}):\n" + textwrap.indent(textwrap.dedent(body), "    ")


def bash(text: str) -> str:
    return f"BashOperator(task_id='x', bash_command={text!r})"


SAID = {
    "not-awaited": (
        "@task\nasync def a():\n    asyncio.sleep(5)  # here\na()",
        "`asyncio.sleep(…)` in a is not awaited",
    ),
    "not-awaited-own": (
        "async def own(): ...\n@task\nasync def a():\n    own()  # here\na()",
        "`own(…)` in a is not awaited, so it does",
    ),
    "returned": (
        "@task\ndef a():\n    async def f(): ...\n    return f()  # here\na()",
        "returns a coroutine and no value. Write",
    ),
    "in-a-branch": (
        "@task\nasync def a(x=1):\n    if x:\n        asyncio.sleep(5)  # here\na()", "`asyncio.sleep(…)` in a is not",
    ),
    "blocking": ("@task\nasync def a():\n    time.sleep(5)  # here\na()", "`time.sleep(…)` in a blocks the event loop"),
    "blocking-alias": ("@task\nasync def a():\n    clock.sleep(5)  # here\na()", "Write `await asyncio.sleep(…)`, or"),
    "blocking-name": ("@task\nasync def a():\n    sleep(5)  # here\na()", "`sleep(…)` in a blocks the event loop"),
    "blocking-process": (
        "@task\nasync def a():\n    return subprocess.run(['ls'])  # here\na()",
        "create_subprocess_exec",
    ),
    "blocking-inside": (
        "@task\nasync def a():\n    import time as t\n    with open('x') as f:\n        t.sleep(1)  # here\na()",
        "`t.sleep(…)`",
    ),
    "argument": (
        "@task  # here\ndef a(task_instanc=None): ...\na()",
        "is 'task_instance' meant, which the context has?",
    ),
    "argument-of-two": ("@task  # here\ndef a(x, logical_dat=None): ...\na(1)", "is 'logical_date' meant"),
    "kwargs": (
        "@task\ndef a(**c):\n    return c['logicaldate']  # here\na()",
        "The context has no 'logicaldate', which a",
    ),
    "pull": (
        "@task\ndef a(ti=None):\n    ti.xcom_pull(task_ids='aa')  # here\na()",
        "xcom_pull asks for 'aa', and the DAG",
    ),
    "pull-list": ("@task\ndef a(ti=None):\n    ti.xcom_pull(['a', 'aa'])  # here\na()", "Did you mean 'a'?"),
    "pull-context": (
        "@task\ndef a():\n    get_current_context()['ti'].xcom_pull('aa', key='k')  # here\na()",
        "no such task: it gets None",
    ),
    "task-in-task": (
        "@task\ndef a(): ...\na()\n@task\ndef b():\n    a()  # here\nb()", "b calls the task function a while it runs",
    ),
    "name": (bash("{{ dss }}") + "  # here", "nothing defines 'dss' in the template '{{ dss }}', so the task fails."),
    "name-in-a-block": (bash("{% if nope %}x{% endif %}") + "  # here", "nothing defines 'nope'"),
    "syntax": (bash("{{ ds }") + "  # here", "the template '{{ ds }' cannot be read"),
    "pull-template": (bash("{{ ti.xcom_pull('aa') }}") + "  # here", "xcom_pull asks for 'aa'"),
    "param": (bash("{{ params.ye }}") + "  # here", "declares no param 'ye', so only runs whose conf has it"),
    "argument-of-a-task": ("@task\ndef a(x): ...\na('{{ dss }}')  # here", "Task 'a', op_args: nothing defines 'dss'"),
    "mapped": (
        "BashOperator.partial(task_id='x', bash_command='{{ dss }}').expand(env=[{}])  # here", "nothing defines 'dss'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "said"), SAID.values(), ids=SAID.keys())
def test_what_will_go_wrong_is_said_at_its_line(tmp_path: Path, body: str, said: str) -> None:
    text = in_dag(body)
    line = next(n for n, each in enumerate((HEAD + text).splitlines(), 1) if "# here" in each)

    [(where, found)] = advice_on(tmp_path, text)

    assert where == line
    assert said in found


SILENT = {
    "awaited": "@task\nasync def a():\n    await asyncio.sleep(5)\na()",
    "gathered": "@task\nasync def a():\n    await asyncio.gather(asyncio.sleep(1), asyncio.sleep(2))\na()",
    "as-a-task": "@task\nasync def a():\n    t = asyncio.create_task(asyncio.sleep(1))\n    await t\na()",
    "run": "@task\ndef a():\n    return asyncio.run(asyncio.sleep(1))\na()",
    "plain-sleeps": "@task\ndef a():\n    time.sleep(5)\na()",
    "in-a-thread": "@task\nasync def a():\n    await asyncio.to_thread(time.sleep, 5)\na()",
    "in-a-function-for-a-thread": (
        "@task\nasync def a():\n    def f():\n        time.sleep(5)\n    await asyncio.to_thread(f)\na()"
    ),
    "own-sleep": "@task\nasync def a():\n    def sleep(s): ...\n    sleep(5)\na()",
    "shadowed": "@task\nasync def a():\n    time = object()\n    time.sleep(5)\na()",
    "given-argument": "@task\ndef a(task_instanc=None): ...\na(3)",
    "given-by-name": "@task\ndef a(task_instanc=None): ...\na(task_instanc=3)",
    "other-default": "@task\ndef a(logical_dat='x', rows=None): ...\na()",
    "kwargs-of-the-application": "@task\ndef a(**c):\n    return c['pool']\na()",
    "kwargs-given": "@task\ndef a(**c):\n    return c['mine'], c['ds'], c.get('other')\na(mine=1)",
    "pull-of-another-dag": "@task\ndef a(ti=None):\n    ti.xcom_pull(task_ids='aa', dag_id='other')\na()",
    "pull-of-what-is-computed": "@task\ndef a(ti=None, x='b'):\n    ti.xcom_pull(task_ids=x)\na()",
    "pull-without-a-task": "@task\ndef a(ti=None):\n    ti.xcom_pull(key='k')\na()",
    "names": bash(
        "{{ ds }} {{ ti.task_id }} {{ var.value.x }} {{ macros.ds_add(ds, 1) }} {{ conn.x.host }} {{ params }}"
    ),
    "own-names": bash("{% set x = 1 %}{% for y in range(3) %}{{ x + y + loop.index }}{% endfor %}"),
    "raw": bash("{% raw %}{{ dss }}{% endraw %}"),
    "not-a-template": "BashOperator(task_id='x', bash_command='true', doc_md='{{ dss }}')",
    "params-as-a-dict": bash("{{ params.items() }} {{ params['other'] }}"),
}


@pytest.mark.parametrize("body", SILENT.values(), ids=SILENT.keys())
def test_what_may_be_right_is_not_warned_of(tmp_path: Path, body: str) -> None:
    assert advice_on(tmp_path, in_dag(body)) == []


def test_names_of_the_dag_are_known(tmp_path: Path) -> None:
    options = "'d', user_defined_macros={'mine': 1}, params={'yes': 1}"

    assert advice_on(tmp_path, in_dag(bash("{{ mine }} {{ params.yes }}"), options=options)) == []


def test_a_dag_whose_undefined_names_are_empty_is_left_alone(tmp_path: Path) -> None:
    options = "'d', template_undefined=__import__('jinja2').Undefined"

    assert advice_on(tmp_path, in_dag(bash("{{ dss }}"), options=options)) == []


def test_a_text_of_many_tasks_is_said_once(tmp_path: Path) -> None:
    many = "for n in range(50):\n    BashOperator(task_id=f'x{n}', bash_command='{{ dss }}')"

    assert len(advice_on(tmp_path, in_dag(many))) == 1
