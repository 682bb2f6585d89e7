"""Annotations may name what only type checkers import: as texts, and since Python 3.14 (PEP 649) as they are."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from aiosched import signatures
from aiosched.authoring.dag.loader import load_file
from aiosched.executors.dag_test import run_dag_test
from aiosched.signatures import signature_of

ROOT = Path(__file__).parents[2]
AS_THEY_ARE = sys.version_info >= (3, 14)
HEAD = ("" if AS_THEY_ARE else "from __future__ import annotations\n") + textwrap.dedent("""\
    from typing import TYPE_CHECKING
    from aiosched import DAG, Asset, BaseOperator, EmptyOperator, asset, dag, task, task_group
    if TYPE_CHECKING:
        from nowhere import Frame
    """)

USES = {
    "arguments": "@task\ndef a(x: Frame, ti: Frame = None) -> Frame: return x\na(1)",
    "mapped": "@task\ndef a(x: Frame, y: Frame): return x\na.partial(y=1).expand(x=[1, 2])",
    "several-outputs": (
        "@task\ndef a() -> dict[str, Frame]: return {'x': 1}\n@task\ndef b(x: Frame): ...\nb(a()['x'])"
    ),
    "coroutine": "@task\nasync def a(x: list[Frame]) -> Frame | None: ...\na([])",
    "branch": "@task.branch\ndef a(x: Frame) -> Frame: return None\na(1)",
    "sensor": "@task.sensor\ndef a(x: Frame) -> Frame: return True\na(1)",
    "command": "@task.bash\ndef a(x: Frame) -> Frame: return 'true'\na(1)",
    "group": "@task\ndef a(x: Frame): ...\n@task_group\ndef g(x: Frame) -> Frame:\n    a(x)\ng(1)",
    "mapped-group": "@task\ndef a(x: Frame): ...\n@task_group\ndef g(x: Frame) -> Frame:\n    a(x)\ng.expand(x=[1, 2])",
    "operator": (
        "class Own(BaseOperator):\n    def __init__(self, *, frame: Frame, **kwargs: Frame) -> None:\n"
        "        super().__init__(**kwargs)\n    def execute(self, context: Frame) -> Frame: ...\n"
        "Own(task_id='a', frame=1)"
    ),
    "callback": "def told(context: Frame) -> Frame: ...\nEmptyOperator(task_id='a', on_success_callback=told)",
    "hook": "def before(context: Frame) -> Frame: ...\n@task(pre_execute=before)\ndef a(): ...\na()",
}


def dags_of(folder: Path, text: str) -> list[Any]:
    file = folder / "typed.py"
    file.write_text(HEAD + text)
    return load_file(file, root=folder).dags


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
async def test_a_task_whose_annotations_are_for_type_checkers_runs(tmp_path: Path, use: str) -> None:
    [dag] = dags_of(tmp_path, "@dag\ndef d():\n" + textwrap.indent(use, "    ") + "\nd()")

    run = await run_dag_test(dag, pause=0.0)

    assert {task.state for task in run.tasks} == {"success"}


def test_a_dag_and_an_asset_may_have_such_parameters(tmp_path: Path) -> None:
    built, made = dags_of(
        tmp_path,
        "@dag\ndef d(day: Frame = 'today') -> Frame: ...\nd()\n"
        "@asset(schedule=None)\ndef made(self: Frame, context: Frame) -> Frame: ...",
    )

    assert (built.params["day"], made.dag_id) == ("today", "made")


def test_the_format_is_asked_for_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """On older Pythons: imitates one that evaluates annotations when they are asked for."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(signatures, "_OPTIONS", {"annotation_format": "forwardref"})
    monkeypatch.setattr("inspect.signature", lambda function, **options: asked.append(options))

    signature_of(len)

    assert asked == [{"annotation_format": "forwardref"}]


def test_functions_of_authors_are_looked_at_by_no_other_way() -> None:
    ours = {"aiosched/signatures.py", "aiosched/cli/base/request_options.py", "aiosched/core/requests/options.py"}

    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "aiosched").rglob("*.py")
        if "inspect.signature(" in path.read_text() or "getfullargspec" in path.read_text()
    }

    assert found <= ours
