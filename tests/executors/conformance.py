"""What every executor has to do, whatever runs its attempts: one suite, played by a real scheduler on each of them.

`PLACES` (test_conformance.py) makes the executors. The outcomes of tasks are one DAG file, whose tasks all run at once;
what needs a scene of its own (a cancellation, a worker that is killed, a log that is read meanwhile) has its own DAG.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

OUTCOMES: Final = """
import asyncio, os, time
from datetime import UTC, datetime, timedelta

from aiosched import DAG, Asset, BaseOperator, CheckResult, asset_check, task
from aiosched.errors import FailTask, RescheduleTask, SkipTask
from aiosched.triggers import TimeDeltaTrigger

LARGE = "x" * 900_000
MARK = {here!r}

def once(name):
    "True at the first call of this name, in whatever process."
    try:
        os.close(os.open(os.path.join(MARK, name), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

class Deferring(BaseOperator):
    def __init__(self, fails=False, slow=False, **options):
        super().__init__(**options)
        self.fails, self.slow = fails, slow

    def execute(self, context):
        delta = timedelta(hours=1) if self.slow else timedelta(milliseconds=50)
        timeout = timedelta(milliseconds=200) if self.slow else None
        self.defer(trigger=TimeDeltaTrigger(delta), method_name="resume", timeout=timeout)

    def resume(self, context, event):
        if self.fails:
            raise ValueError("after the event")
        return "resumed"

with DAG("outcomes", schedule=None, max_active_tasks=100, default_args={{"retry_delay": 0.05}}):
    @task
    def plain(): return {{"n": 1}}

    @task
    async def coroutine(): return [1, 2]

    @task
    def reads(a, b): return [a["n"], b, len(LARGE)]

    @task
    async def reads_too(a, b): return [a["n"], b]

    @task
    def large(): return LARGE

    @task
    def reads_large(value): return len(value)

    @task
    def too_large(): return "x" * 2_000_000

    @task
    def fails(): raise ValueError("no")

    @task
    async def fails_too(): raise ValueError("no")

    @task(retries=3)
    def fails_at_once(): raise FailTask("never")

    @task(retries=2)
    def works_at_last(ti=None):
        if ti.try_number < 3:
            raise ValueError(f"try {{ti.try_number}}")
        return ti.try_number

    @task(retries=2)
    async def works_at_last_too(ti=None):
        if ti.try_number < 3:
            raise ValueError(f"try {{ti.try_number}}")
        return ti.try_number

    @task
    def skipped(): raise SkipTask("not today")

    @task
    def behind_skipped(_): pass

    @task
    def comes_again():
        if once("comes_again"):
            raise RescheduleTask(datetime.now(UTC) + timedelta(milliseconds=100))
        return "came again"

    @task(execution_timeout=0.3)
    def too_slow(): time.sleep(60)

    @task(execution_timeout=0.3)
    async def too_slow_too(): await asyncio.sleep(60)

    @task(execution_timeout=timedelta.max)
    def takes_its_time(): return 1

    @task
    def numbers(): return [1, 2, 3]

    @task
    def double(number):
        if number == 2:
            raise SkipTask("even")
        return 2 * number

    @task(trigger_rule="all_done")
    def together(values): return sorted(values)

    @task
    def pushes(ti=None):
        ti.xcom_push("key", "pushed")

    @task
    def not_json(): return object()

    @task
    def system_exit(): raise SystemExit("bye")

    @task(outlets=[Asset("made")])
    def makes(): pass

    @task(templates_dict={{"run": "{{{{ run_id }}}}"}})
    def templated(templates_dict=None): return templates_dict["run"]

    @task(templates_dict={{"run": "{{{{ run_id }}}}"}})
    async def templated_too(templates_dict=None): return templates_dict["run"]

    @asset_check(Asset("made"))
    def warns(): return CheckResult("warn", "3 rows", {{"rows": 3}})

    @asset_check(Asset("made"), retries=1)
    async def passes_at_last(ti=None): return ti.try_number == 2

    @asset_check(Asset("made"), execution_timeout=0.3)
    def hangs(): time.sleep(60)

    warns(), passes_at_last(), hangs()
    first, second = plain(), coroutine()
    reads(first, second), reads_too(first, second)
    reads_large(large()), too_large(), fails(), fails_too(), fails_at_once(), works_at_last(), works_at_last_too()
    behind_skipped(skipped()), comes_again(), too_slow(), too_slow_too(), takes_its_time(),
    together(double.expand(number=numbers()))
    pushes(), not_json(), system_exit(), makes(), templated(), templated_too()
    Deferring(task_id="deferred"), Deferring(task_id="deferred_fails", fails=True)
    Deferring(task_id="deferred_too_long", slow=True)
"""


class Expected(NamedTuple):
    """What becomes of a task: its state, its number of tries, and its value if it has one."""

    state: str
    tries: int = 1
    value: Any = None
    reason: str = ""  # words of the stored reason


EXPECTED: Final[dict[str, Expected]] = {
    "plain": Expected("success", value={"n": 1}),
    "coroutine": Expected("success", value=[1, 2]),
    "reads": Expected("success", value=[1, [1, 2], 900_000]),
    "reads_too": Expected("success", value=[1, [1, 2]]),
    "large": Expected("success"),
    "reads_large": Expected("success", value=900_000),
    "too_large": Expected("failed", reason="max_xcom_bytes"),
    "fails": Expected("failed", reason="ValueError: no"),
    "fails_too": Expected("failed", reason="ValueError: no"),
    "fails_at_once": Expected("failed", reason="never"),
    "works_at_last": Expected("success", tries=3, value=3),
    "works_at_last_too": Expected("success", tries=3, value=3),
    "skipped": Expected("skipped", reason="not today"),
    "behind_skipped": Expected("skipped", tries=0),
    "comes_again": Expected("success", value="came again"),
    "too_slow": Expected("failed", reason="execution_timeout"),
    "too_slow_too": Expected("failed", reason="execution_timeout"),
    "takes_its_time": Expected("success", value=1),
    "numbers": Expected("success", value=[1, 2, 3]),
    "together": Expected("success", value=[2, 6]),
    "pushes": Expected("success"),
    "not_json": Expected("failed", reason="JSON"),
    "system_exit": Expected("failed", reason="SystemExit"),
    "makes": Expected("success"),
    "warns": Expected("success", value="warn"),
    "passes_at_last": Expected("success", tries=2, value="pass"),
    "hangs": Expected("failed", reason="execution_timeout"),
    "templated": Expected("success", value="r"),
    "templated_too": Expected("success", value="r"),
    "deferred": Expected("success", value="resumed"),
    "deferred_fails": Expected("failed", reason="ValueError: after the event"),
    "deferred_too_long": Expected("failed", reason="no event within"),
}

WAITING: Final = """
import asyncio, os, time
from pathlib import Path

from aiosched import DAG, task

HERE = Path({here!r})

def begin(name):
    print(f"{{name}} begins", flush=True)
    with (HERE / "calls").open("a") as file:
        file.write(f"{{name}} {{os.getpid()}}\\n")

with DAG("waiting", schedule=None):
    @task
    def plain():
        begin("plain")
        while not (HERE / "go").exists():
            time.sleep(0.02)
        return "plain"

    @task
    async def coroutine():
        begin("coroutine")
        while not (HERE / "go").exists():
            await asyncio.sleep(0.02)
        return "coroutine"

    plain(), coroutine()
"""
WAITS: Final = WAITING.replace('"waiting"', '"d"')

MANY: Final = """
from aiosched import DAG, task

with DAG("many", schedule=None, max_active_tasks=10_000):
    @task
    def quick(number): return number

    @task
    async def quick_too(number): return number

    quick.expand(number=list(range({count})))
    quick_too.expand(number=list(range({count})))
"""
