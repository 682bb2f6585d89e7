"""The mistakes of docs/mistakes.md, as files: by the words of the page, what is written instead of what was meant."""

from __future__ import annotations

import textwrap
from typing import Final

HEAD: Final = """\
import asyncio, sys, time
from datetime import datetime
import pendulum
from aiosched import DAG, BaseHook, BashOperator, Variable, dag, task
"""


def in_dag(body: str, options: str = "") -> str:
    return f"@dag({options})\ndef mistaken():\n" + textwrap.indent(textwrap.dedent(body), "    ") + "\nmistaken()\n"


A: Final = "@task\ndef a(): return 1\n"
B: Final = "@task\ndef b(x=None): return x\n"


def bash(text: str) -> str:
    return f"BashOperator(task_id='a', bash_command={text!r})"


MISTAKES: Final = {  # what the page calls it -> the file
    "a parameter of `@dag` misspelt": in_dag(A + "a()", "schedul='@daily'"),
    "a parameter of `@task` misspelt": in_dag("@task(retrys=3)\ndef a(): ...\na()"),
    "a preset misspelt": in_dag(A + "a()", "schedule='@dayly'"),
    "a cron field out of range": in_dag(A + "a()", "schedule='99 * * * *'"),
    "a number as a schedule": in_dag(A + "a()", "schedule=5"),
    "a time zone misspelt": in_dag(A + "a()", "start_date=pendulum.datetime(2025, 1, 1, tz='Europe/Amsterdm')"),
    "a day that does not exist": in_dag(A + "a()", "start_date='2025-13-01'"),
    "the end before the start": in_dag(A + "a()", "start_date='2025-01-02', end_date='2025-01-01'"),
    "an id with a space": in_dag(A + "a()", "dag_id='my dag'"),
    "text for a number": in_dag("@task(retries='three')\ndef a(): ...\na()"),
    "text for a limit": in_dag(A + "a()", "max_active_runs='many'"),
    "a trigger rule misspelt": in_dag("@task(trigger_rule='all_sucess')\ndef a(): ...\na()"),
    "two tasks of one id": in_dag(bash("true") + "\n" + bash("true")),
    "tasks in a circle": in_dag(A + B + "x = a()\ny = b(x)\ny >> x"),
    "tasks connected without calling them": in_dag(A + B + "a >> b"),
    "an argument missing": in_dag("@task\ndef a(x, y): ...\na(1)"),
    "an argument too many": in_dag(A + "a(3)"),
    "an argument of `expand` misspelt": in_dag("@task\ndef a(x): ...\na.expand(z=[1])"),
    "`partial` without `expand`": in_dag("BashOperator.partial(task_id='a', bash_command='true')"),
    "`if` on an output": in_dag(A + B + "x = a()\nif x:\n    b(x)"),
    "an output compared": in_dag(A + B + "if a() == 3:\n    b()"),
    "arithmetic on an output": in_dag(A + B + "b(a() + 1)"),
    "`len` of an output": in_dag(A + B + "b(len(a()))"),
    "a loop over an output": in_dag(A + B + "for x in a():\n    b(x)"),
    "a `@dag` function never called": "@dag\ndef mistaken(): ...\n",
    "a task function never called": in_dag(A + "a"),
    "a task outside of a DAG": A + "a()\n",
    "a task function called inside a task": in_dag(A + "a()\n@task\ndef b():\n    return a()\nb()"),
    "a coroutine without `await`": in_dag("@task\nasync def a():\n    asyncio.sleep(5)\na()"),
    "a coroutine returned": in_dag("@task\ndef a():\n    async def f(): ...\n    return f()\na()"),
    "a blocked event loop": in_dag("@task\nasync def a():\n    time.sleep(8)\na()"),
    "a context argument misspelt": in_dag("@task\ndef a(task_instanc=None): ...\na()"),
    "a key of the context misspelt": in_dag("@task\ndef a(**context):\n    return context['logicaldate']\na()"),
    "`xcom_pull` of a task that does not exist": in_dag("@task\ndef a(ti=None):\n    ti.xcom_pull('aa')\na()"),
    "an unknown name in a template": in_dag(bash("echo {{ dss }}")),
    "a template that cannot be read": in_dag(bash("echo {{ ds }")),
    "an unknown param in a template": in_dag(bash("echo {{ params.nmae }}"), "params={'name': 'x'}"),
    "a module that is not installed": "import pandaz\n" + in_dag(A + "a()"),
    "a bracket left open": "@dag(\n",
    "a template file that does not exist": in_dag(bash("nowhere.sh")),
    "a result that cannot be stored": in_dag("@task\ndef a(): return object()\na()"),
    "a key that the output does not have": in_dag("@task\ndef a() -> dict: return {'x': 1}\n" + B + "b(a()['y'])"),
    "nothing to map over": in_dag("@task\ndef a(): return None\n@task\ndef b(x): ...\nb.expand(x=a())"),
    "a branch to a task that does not exist": in_dag("@task.branch\ndef a(): return 'nope'\n" + B + "a() >> b()"),
    "a connection that does not exist": in_dag("@task\ndef a(): BaseHook.get_connection('shop')\na()"),
    "a variable that does not exist": in_dag("@task\ndef a(): return Variable.get('city')\na()"),
    "a command that does not exist": in_dag(bash("nocommand")),
    "`sys.exit` in a task": in_dag("@task\ndef a(): sys.exit(3)\na()"),
}
