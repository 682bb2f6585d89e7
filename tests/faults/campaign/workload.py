"""The work of a campaign: generated DAG files, and the plan of them that the checker judges by."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.faults.campaign import asking
from tests.faults.checker import DagPlan, TaskPlan

FIRST = datetime(2025, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=1)
POOL = "narrow"

# The shape of every DAG: a task, four in parallel, a join, three in parallel, a join.
SHAPE: dict[str, tuple[str, ...]] = {
    "t0": (),
    **{f"t{i}": ("t0",) for i in range(1, 5)},
    "t5": ("t1", "t2", "t3", "t4"),
    **{f"t{i}": ("t5",) for i in range(6, 9)},
    "t9": ("t6", "t7", "t8"),
}


@dataclass(frozen=True)
class Workload:
    """`dags` DAGs with `runs` intervals each, all of them due at once; every task takes about `seconds`.

    `pool_slots`: every task goes through one pool of that size (None: the default pool, wide open).
    A task in ten fails in its first try. `plain` of the tasks are plain functions, the others `async def`.
    With `asks` every task asks its scheduler for something, and some change something (asking.py). With `leaves`
    some are commands, some run under another interpreter, and many leave processes behind (leaving.py).
    """

    dags: int
    runs: int
    seconds: float
    seed: int
    pool_slots: int | None = None
    max_active_runs: int = 3
    max_active_tasks: int = 3
    plain: float = 0.3
    flaky: float = 0.1
    task_limit: int = 4  # max_active_tis_per_dag of t1
    asks: bool = False
    leaves: bool = False

    @property
    def tasks(self) -> int:
        return self.dags * self.runs * len(SHAPE)

    @property
    def pools(self) -> dict[str, int]:
        return {} if self.pool_slots is None else {POOL: self.pool_slots}

    def plans(self) -> dict[str, DagPlan]:
        pool = "default_pool" if self.pool_slots is None else POOL
        tasks = {
            task_id: TaskPlan(upstream, pool, 1, self.task_limit if task_id == "t1" else None, self._effects(task_id))
            for task_id, upstream in SHAPE.items()
        }
        plan = DagPlan(tasks, FIRST, STEP, self.runs, self.max_active_runs, self.max_active_tasks)
        return {self._dag_id(number): plan for number in range(self.dags)}

    def write(self, folder: Path) -> None:
        """Write the modules that tasks import to `folder`/lib, and what they trigger to `folder`/dags."""
        (folder / "dags").mkdir(parents=True)
        (folder / "lib").mkdir()
        (folder / "records").mkdir()
        shutil.copy(Path(__file__).with_name("recorder.py"), folder / "lib")
        if self.leaves:
            shutil.copy(Path(__file__).with_name("leaving.py"), folder / "lib")
        if self.asks:
            shutil.copy(Path(asking.__file__), folder / "lib")
            (folder / "dags" / f"{asking.ASKED}.py").write_text(_ASKED)

    def write_clocked(self, folder: Path) -> None:
        """Write the files of the DAGs whose runs are due by the clock to `folder`/dags."""
        dice = random.Random(self.seed)
        for number in range(self.dags):
            dag_id = self._dag_id(number)
            (folder / "unfinished").write_text(self._file(dag_id, dice))
            (folder / "unfinished").replace(folder / "dags" / f"{dag_id}.py")  # schedulers read the folder already

    def _effects(self, task_id: str) -> frozenset[str]:
        return asking.effects_of(task_id) if self.asks else frozenset()

    def _dag_id(self, number: int) -> str:
        return f"d{number:03}"

    def _file(self, dag_id: str, dice: random.Random) -> str:
        last = FIRST + (self.runs - 1) * STEP
        lines = [
            "from datetime import datetime, timedelta",
            "from aiosched import DAG, task",
            "from aiosched.authoring.runtime.context import get_current_context",
            "from recorder import work, work_async",
            *(["from aiosched import Asset", "from asking import aask, ask"] if self.asks else ()),
            *([*_LEAVING, "from leaving import aleave, command, leave, outside"] if self.leaves else ()),
            "",
            "with DAG(",
            f"    {dag_id!r}, schedule=timedelta(minutes=1), start_date=datetime.fromisoformat({FIRST.isoformat()!r}),",
            f"    end_date=datetime.fromisoformat({last.isoformat()!r}), catchup=True,",
            f"    max_active_runs={self.max_active_runs}, max_active_tasks={self.max_active_tasks},",
            ") as dag:",
        ]
        for task_id, plan in self.plans()[dag_id].tasks.items():
            seconds = round(self.seconds * dice.uniform(0.5, 1.5), 4)
            plain, fails = dice.random() < self.plain, dice.random() < self.flaky
            options = f"pool={plan.pool!r}, retries=3, retry_delay=timedelta(seconds=0.1)"
            if plan.limit is not None:
                options += f", max_active_tis_per_dag={plan.limit}"
            call = f"{'work' if plain else 'await work_async'}(get_current_context(), {seconds}, {fails})"
            kind = (
                dice.choices(("function", "leaving", "bash", "outside"), (6, 2, 2, 1))[0] if self.leaves else "function"
            )
            if kind == "bash":
                bash = f"bash_command=command({seconds}, {fails})"
                lines.append(f"    {task_id}_ = BashOperator(task_id={task_id!r}, {bash}, {options})")
            elif kind == "outside":
                lines += [
                    f"    {task_id}_ = ExternalPythonOperator(",
                    f"        task_id={task_id!r}, python=sys.executable, python_callable=elsewhere,",
                    f"        op_args=[{seconds}, {fails}], {options},",
                    "    )",
                ]
            if kind in ("bash", "outside"):
                lines += [f"    {upstream}_ >> {task_id}_" for upstream in plan.upstream]
                continue
            leaves = (
                [f"        {'leave' if plain else 'await aleave'}(get_current_context())"] if kind == "leaving" else []
            )
            if self.asks and task_id in asking.EMITTING:
                options += f", outlets=[Asset({dag_id!r})]"
            lines += [
                f"    @task(task_id={task_id!r}, {options})",
                f"    {'def' if plain else 'async def'} {task_id}():",
                *([f"        answer = {_asking(plain, plan.upstream)}"] if self.asks else ()),
                *leaves,
                f"        {call}",
                *(["        return answer"] if self.asks else ()),
                f"    {task_id}_ = {task_id}()",
            ]
            lines += [f"    {upstream}_ >> {task_id}_" for upstream in plan.upstream]
        return "\n".join(lines) + "\n"


_LEAVING = [
    "import sys",
    "from aiosched import BashOperator, ExternalPythonOperator",
    "def elsewhere(seconds, fails):",
    "    from leaving import outside",
    "    outside(seconds, fails)",
]


def _asking(plain: bool, upstream: tuple[str, ...]) -> str:
    arguments = ", ".join(["get_current_context()", *map(repr, upstream)])
    return f"{'ask' if plain else 'await aask'}({arguments})"


_ASKED = f"""\
from aiosched import DAG, task

with DAG({asking.ASKED!r}, schedule=None, max_active_runs=16):
    @task
    async def nothing():
        pass
    nothing()
"""
