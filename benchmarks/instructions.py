"""`python -m benchmarks instructions SHAPE [--executor local|inline] [--against TREE] [--rounds N]`.

How many instructions the scheduler's process executes a task, counted by valgrind (which must be installed): from the
instant at which the runs are due to their end. Other work on the machine does not change that, unlike processor time;
a process under valgrind is about fifty times slower. So heartbeats and other work that comes with time, and not with
tasks, are put off; two counts of the same code still differ by up to 2 %.

Chains are what it is for. Workers run at their full speed meanwhile: with `local` and tasks side by side the scheduler
gets their reports in smaller or larger batches than without valgrind.

`--against` counts another tree of the project too, in turns, and shows the ratio. That tree may be older than this
file, which imports only what all versions have.

Exit codes: 0 counted, 1 it could not be counted, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final
from unittest.mock import patch

from benchmarks.shapes import SHAPES

HERE: Final = Path(__file__).parents[1]
_NEVER: Final = 900.0  # seconds: longer than anything that is counted
_VALGRIND: Final = ("valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null")


class NotCounted(Exception):
    """A run under valgrind that failed; the message is the end of what it said."""


def main(argv: Sequence[str]) -> int:
    """Count, and print a line for each tree."""
    parser = _parser()
    options = parser.parse_args(argv)
    if shutil.which("valgrind") is None:
        print("instructions are counted by valgrind: install it, as with `apt-get install valgrind`", file=sys.stderr)
        return 1
    trees = [HERE] if options.against is None else [options.against.resolve(), HERE]
    for tree in trees:
        if not (tree / "benchmarks" / "run.py").is_file():
            parser.error(f"{tree} is no tree of the project: there is no benchmarks/run.py")
    counts: dict[Path, list[int]] = {tree: [] for tree in trees}
    for number in range(options.rounds):
        for tree in trees if number % 2 == 0 else reversed(trees):
            try:
                counts[tree].append(_count(tree, options.shape, options.executor))
            except NotCounted as error:
                print(f"{tree}: {error}", file=sys.stderr)
                return 1
    print(*lines(counts), sep="\n")
    return 0


def lines(counts: dict[Path, list[int]]) -> list[str]:
    """A line for each tree with the median of its counts, and one with the ratio of the last to the first."""
    found = [
        f"{tree}  {median(each):,.0f} instructions a task  ({min(each):,} to {max(each):,})"
        for tree, each in counts.items()
    ]
    first, *others = counts.values()
    return [*found, *(f"ratio {median(other) / median(first):.3f}" for other in others)]


def total_in(text: str) -> int:
    """The instructions that valgrind says it has counted. Raises NotCounted."""
    found = re.search(r"Collected : (\d+)", text)
    if found is None or found[1] == "0":
        raise NotCounted(text.strip()[-2000:] or "valgrind said nothing")
    return int(found[1])


def _count(tree: Path, shape: str, executor: str) -> int:
    """Run a shape of a tree under valgrind; the instructions a task."""
    with tempfile.TemporaryDirectory() as folder:
        tasks = Path(folder, "tasks")
        command = [*_VALGRIND, sys.executable, "-P", __file__, shape, executor, str(tasks)]
        environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotCounted(done.stderr.strip()[-2000:])
        return total_in(done.stderr) // int(tasks.read_text())


def _run(name: str, executor: Any, tasks: Path) -> None:
    """In valgrind: run a shape with the benchmarks of the tree on the path, and have the measured part counted."""
    import uvloop

    from benchmarks import run, stage

    wait, unlimited = run.Finish.wait, stage.unlimited

    async def counted(finish: run.Finish, scheduler: Any, timeout: float) -> bool:
        _tell_valgrind("-z")  # only the last time counts: the first is a rehearsal
        _tell_valgrind("-i", "on")
        try:
            return await wait(finish, scheduler, timeout)
        finally:
            _tell_valgrind("-i", "off")

    def patient(folders: Any) -> Any:
        settings = unlimited(folders)
        settings.scheduler.lease = settings.scheduler.safety_poll = _NEVER
        return settings

    with patch.object(run.Finish, "wait", counted), patch.object(run, "unlimited", patient):
        result = uvloop.run(run.run(SHAPES[name], executor=executor, kind="async"))
    if result.problems:
        raise SystemExit("; ".join(result.problems))
    tasks.write_text(str(SHAPES[name].total))


def _tell_valgrind(*words: str) -> None:
    subprocess.run(["callgrind_control", *words, str(os.getpid())], check=True, stdout=subprocess.DEVNULL)  # noqa: S607


def _parser() -> argparse.ArgumentParser:
    from benchmarks.arguments import at_least_one  # not all versions have it

    about = "Count the instructions that the scheduler's process executes a task, under valgrind."
    parser = argparse.ArgumentParser(prog="python -m benchmarks instructions", description=about)
    parser.add_argument("shape", choices=SHAPES, metavar="SHAPE", help="see `python -m benchmarks --list`")
    parser.add_argument("--executor", choices=("local", "inline"), default="inline", help="default: inline")
    parser.add_argument("--against", type=Path, metavar="TREE", help="another tree of the project, to be compared with")
    parser.add_argument("--rounds", type=at_least_one, default=1, metavar="N", help="default: 1")
    return parser


if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
