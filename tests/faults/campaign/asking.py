"""What tasks ask of their scheduler, imported by the generated DAG files (as the module `asking`).

Every task pulls the XComs of those before it and reads a variable and a connection. `CHANGING` ones set and delete a
variable of their own, `TRIGGERING` ones start a run of the DAG `ASKED`, `EMITTING` ones have an asset as outlet.
What an attempt changes carries its name, so that it can be counted afterwards.
"""

from __future__ import annotations

from typing import Any

from aiosched import Connection, Variable
from aiosched.authoring.runtime.services import acall, call

ASKED = "asked"  # the DAG that is triggered
VARIABLE, CONNECTION = "faults", "faults"  # that are read, with `VALUE` in both
VALUE = "steady"
CHANGING, TRIGGERING, EMITTING = frozenset({"t1", "t6"}), frozenset({"t5"}), frozenset({"t9"})


def effects_of(task_id: str) -> frozenset[str]:
    """What a try of the task that succeeds has changed, once each."""
    found = {"variable set", "variable deleted"} if task_id in CHANGING else set[str]()
    found |= {"run triggered"} if task_id in TRIGGERING else set()
    return frozenset(found | ({"event emitted"} if task_id in EMITTING else set()))


def name_of(context: Any) -> str:
    """The name of an attempt in what it changes."""
    ti, run = context["ti"], context["dag_run"]
    return f"{run.dag_id}/{run.run_id}/{ti.task_id} try {ti.try_number}"


def ask(context: Any, *upstream: str) -> str:
    """Ask, as a plain function; the value to be returned by the task."""
    ti, name = context["ti"], name_of(context)
    _expect(ti.xcom_pull(task_ids=list(upstream)), list(upstream))
    _expect(Variable.get(VARIABLE), VALUE)
    _expect(Connection.get(CONNECTION).login, VALUE)
    if ti.task_id in CHANGING:
        Variable.set(name, "1")
        _expect(Variable.get(name), "1")
        Variable.delete(name)
    if ti.task_id in TRIGGERING:
        call("trigger_dag", dag_id=ASKED, conf={"by": name})
    return str(ti.task_id)


async def aask(context: Any, *upstream: str) -> str:
    """As `ask`, for coroutines."""
    ti, name = context["ti"], name_of(context)
    _expect(await ti.axcom_pull(task_ids=list(upstream)), list(upstream))
    _expect(await Variable.aget(VARIABLE), VALUE)
    _expect((await Connection.aget(CONNECTION)).login, VALUE)
    if ti.task_id in CHANGING:
        await Variable.aset(name, "1")
        _expect(await Variable.aget(name), "1")
        await Variable.adelete(name)
    if ti.task_id in TRIGGERING:
        await acall("trigger_dag", dag_id=ASKED, conf={"by": name})
    return str(ti.task_id)


def _expect(found: Any, expected: Any) -> None:
    if found != expected:
        raise AssertionError(f"got {found!r} where {expected!r} was stored")
