"""DAG files that note each import, and what is announced about them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from aiosched.core.creation.upcoming import NO_RUN
from aiosched.core.values.messages import Attempt, Outcome, Report, RunInfo, Upcoming
from aiosched.executors.local.executor import LocalExecutor
from tests.executors.attempt_builders import attempt, write_dag
from tests.patience import until

COUNTS = """
with open({imports!r}, "a") as seen: seen.write(f"{{os.getpid()}} d\\n")
{more}
def plain(): return [os.getpid(), VALUE]
async def later(): return [os.getpid(), VALUE]
task(plain), task(later)
"""


class Files:
    """Writes DAG files that note each import, with the process."""

    def __init__(self, folder: Path, notes: Path) -> None:
        self.folder, self.notes = folder, notes

    def write(self, value: str = "1", *, name: str = "d", more: str = "") -> None:
        body = COUNTS.format(imports=str(self.notes), more=f"{more}\nVALUE = {value}").replace(" d\\n", f" {name}\\n")
        write_dag(self.folder, body, name=name)

    def imports(self, name: str = "d") -> list[int]:
        """The processes that imported a file, in order."""
        lines = [line.split() for line in self.notes.read_text().splitlines()] if self.notes.exists() else []
        return [int(pid) for pid, file in lines if file == name]


def expected(name: str = "d", *, is_async: bool = False, source_hash: str = "h", **facts: object) -> Upcoming:
    run = RunInfo(
        key=NO_RUN, dag_id=name, run_id="", run_type="", run_after=datetime(2026, 1, 1, tzinfo=UTC),
        file=f"{name}.py", source_hash=source_hash, **facts,
    )  # type: ignore[arg-type]  # fmt: skip
    return Upcoming(run=run, is_async=is_async)


async def warm(executor: LocalExecutor, *upcoming: Upcoming) -> None:
    """Have the files imported, and wait for it."""
    executor.prepare(upcoming)
    await idle(executor)


async def idle(executor: LocalExecutor) -> None:
    await until(lambda: not executor._queue.warming and not any(link.warming for link in executor._links.values()))


def of(name: str = "d", task: str = "plain", *, number: int = 1, source_hash: str = "h", **run: object) -> Attempt:
    return attempt(
        task, file=f"{name}.py", dag_id=name, number=number, is_async=task == "later", source_hash=source_hash, **run
    )  # type: ignore[arg-type]


def value(report: Report) -> list[int]:
    assert report.outcome is Outcome.SUCCESS, f"{report.reason} {report.details}"
    return list(json.loads(report.xcoms[0].value))


def hanging(tmp_path: Path, begin: str = "while not os.path.exists({go!r}): time.sleep(0.01)") -> str:
    return begin.format(go=str(tmp_path / "go"))
