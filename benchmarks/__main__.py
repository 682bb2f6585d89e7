"""`python -m benchmarks NAME [--size N] [--executor local|inline] [--callable async|sync] [-o FORMAT]`.

NAME is a shape (shapes.py), a scenario (catalogue.py), `airflow-table`, `peers` (peers/command.py) or `instructions`
(instructions.py), which have options of their own, or `simulate-year`, which needs no database.
`--all` runs everything, each in a process of its own; `--list` names it.

Exit codes: 0 measured and verified (whether or not a budget is reached), 1 the verification failed or it took too
long, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Coroutine
from typing import Any

import uvloop

from benchmarks import airflow_table, everything, figures, instructions, simulate_year
from benchmarks.arguments import at_least_one
from benchmarks.catalogue import SCENARIOS
from benchmarks.figures import Finding
from benchmarks.peers import command as peers_command
from benchmarks.report import MARKDOWN_HEAD, Result, as_json, as_markdown, as_table, finding_of
from benchmarks.run import run
from benchmarks.shapes import SHAPES
from benchmarks.stage import TooSlow


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["simulate-year"]:
        return simulate_year.main()
    if arguments[:1] == ["peers"]:
        return peers_command.main(arguments[1:])
    if arguments[:1] == ["instructions"]:
        return instructions.main(arguments[1:])
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    if options.all:
        return everything.main(options.output)
    if options.list or options.name is None:
        print(_list())
        return 0
    try:
        if options.name == "airflow-table":
            return airflow_table.main(options.size)
        return _scenario(options) if options.name in SCENARIOS else _shape(options)
    except TooSlow as error:
        print(f"{options.name}: {error}", file=sys.stderr)
        return 1


def _shape(options: argparse.Namespace) -> int:
    shape = SHAPES[options.name]
    if options.size is not None:
        shape = shape.resized(options.size)
    how: Coroutine[Any, Any, Result] = run(
        shape,
        executor=options.executor,
        kind=options.callable,
        lead=options.lead,
        timeout=300.0 if options.seconds is None else options.seconds,
    )
    result = uvloop.run(how)
    if options.output == "finding":
        return _show(finding_of(result), "json")
    if options.output == "markdown":
        if result.problems:
            print(*result.problems, sep="\n", file=sys.stderr)
            return 1
        print(f"{MARKDOWN_HEAD}\n{as_markdown(result)}" if options.head else as_markdown(result))
    else:
        print(as_json(result) if options.output == "json" else as_table(result))
    return 1 if result.problems else 0


def _scenario(options: argparse.Namespace) -> int:
    scenario = SCENARIOS[options.name]
    size = scenario.size if options.size is None else options.size
    seconds = scenario.seconds if options.seconds is None else options.seconds

    async def measured() -> Finding:
        return await scenario.measure(size, seconds)

    return _show(uvloop.run(measured()), "json" if options.output == "finding" else options.output, head=options.head)


def _show(finding: Finding, output: str, *, head: bool = False) -> int:
    if output == "json":
        print(figures.as_json(finding))
    elif output == "table" or finding.problems:
        print(figures.as_table(finding))
    else:
        print(f"{figures.MARKDOWN_HEAD}\n{figures.as_markdown(finding)}" if head else figures.as_markdown(finding))
    return 1 if finding.problems else 0


def _list() -> str:
    shapes = [f"  {name:<18}{shape.dags:,} DAGs of {shape.tasks:,} tasks" for name, shape in SHAPES.items()]
    others = [f"  {name:<18}{it.about}; size: {it.size:,} {it.unit}" for name, it in SCENARIOS.items()]
    more = ["  airflow-table     Airflow's published figures, with ours beside them", "  simulate-year"]
    more.append("  peers             other systems and aiosched in turns: see `peers --help`")
    more.append("  instructions      of the scheduler's process a task, under valgrind: see `instructions --help`")
    return "\n".join(["shapes", *shapes, "scenarios", *others, "others", *more])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Run one benchmark through the real service on a durable PostgreSQL, verify it, measure it.",
    )
    names = [*SHAPES, *SCENARIOS, "airflow-table"]
    add = parser.add_argument
    add("name", nargs="?", choices=names, metavar="NAME", help="see --list")
    add("--all", action="store_true", help="run everything, each in a process of its own (about 40 minutes)")
    add("--list", action="store_true", help="name the benchmarks")
    add("--size", type=at_least_one, metavar="N", help="another size: DAGs of a shape; what --list says of a scenario")
    add("--seconds", type=float, metavar="S", help="how long it is measured or may take; default: 300 for a shape")
    add("--executor", choices=("local", "inline"), default="inline", help="of a shape; default: inline")
    add("--callable", choices=("async", "sync"), default="async", help="of a shape; default: async")
    formats = ("table", "json", "markdown", "finding")
    add("-o", "--output", choices=formats, default="table", help="default: table; finding: JSON as --all reads it")
    add("--head", action="store_true", help="with -o markdown: the table's head above the rows")
    add("--lead", type=float, metavar="S", help="seconds for reading a shape's DAGs before they are due")
    return parser


if __name__ == "__main__":
    sys.exit(main())
