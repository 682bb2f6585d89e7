"""`python -m benchmarks peers [dask celery dbos prefect airflow] [--rounds N] [--shapes …] [--resume] [--into FILE]`.

`--jobs` compares one-off jobs instead, with procrastinate and arq.

Exit codes: 0 measured (a peer that failed is in the table), 1 our own part failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.arguments import at_least_one
from benchmarks.peers.catalogue import COMPARED, JOBS, KINDS, PEERS, Kind
from benchmarks.peers.environments import cache_folder
from benchmarks.peers.measurements import Log, Measurement
from benchmarks.peers.rounds import Plan, compare
from benchmarks.peers.table import BEGIN, BEGIN_JOBS, NoPlace, put_into, table
from benchmarks.shapes import Shape, sized


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    if unknown := sorted(set(options.peers) - set(PEERS)):
        parser.error(f"unknown peers: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    if options.jobs and (options.peers or options.shapes):
        parser.error("--jobs has peers and a shape of its own")
    compared = (JOBS,) if options.jobs else COMPARED
    shapes = [shape for shape in compared if not options.shapes or shape.name in options.shapes]
    if unknown := sorted(set(options.shapes) - {shape.name for shape in shapes}):
        parser.error(f"unknown shapes: {', '.join(unknown)}; there are {', '.join(s.name for s in COMPARED)}")
    if options.into is not None and options.into.exists():
        page = _filled(options.into, "", options.jobs)  # so that a page without a place is told before an hour of work
        if page is None:
            return 2
    kinds = [kind for kind in KINDS.values() if kind.runs_jobs] if options.jobs else _kinds_of(options.peers)
    log = Log(options.cache / ("jobs.jsonl" if options.jobs else "peers.jsonl"), goes_on=options.resume)
    plan = Plan(kinds, shapes, options.rounds, tiny if options.tiny else Kind.size_of)
    asyncio.run(compare(plan, log, options.cache, lambda line: print(line, file=sys.stderr, flush=True)))
    text = table(log.entries)
    if options.into is None:
        print(text)
    else:
        options.into.write_text(_filled(options.into, text, options.jobs) or text)
    failed = [e for e in log.entries if isinstance(e, Measurement) and KINDS[e.peer].own and e.problem]
    return 1 if failed else 0


def _kinds_of(peers: Sequence[str]) -> list[Kind]:
    return [kind for kind in KINDS.values() if not kind.runs_jobs and (kind.own or kind.name in (peers or PEERS))]


def tiny(_: Kind, shape: Shape) -> Shape:
    """At most three DAGs of at most ten tasks: to see that all peers work."""
    return sized(shape, min(shape.dags, 3), min(shape.tasks, 10))


def _filled(file: Path, text: str, jobs: bool) -> str | None:
    """The page with the table; the table alone for a file that is not there; None, and a message, without a place."""
    if not file.exists():
        return text
    try:
        return put_into(file.read_text(), text, BEGIN_JOBS if jobs else BEGIN)
    except NoPlace as error:
        print(f"{file}: {error}", file=sys.stderr)
        return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks peers",
        description="Run the same shapes on other systems and on aiosched, in turns, on one PostgreSQL; print a table.",
    )
    add = parser.add_argument
    add("peers", nargs="*", metavar="PEER", help=f"of {', '.join(PEERS)}; default: all. aiosched always takes part")
    add("--rounds", type=at_least_one, default=3, metavar="N", help="default: 3")
    add("--shapes", type=lambda text: text.split(","), default=[], metavar="A,B", help="default: all six")
    add("--jobs", action="store_true", help=f"{JOBS.total:,} one-off jobs instead, beside procrastinate and arq")
    add("--tiny", action="store_true", help="a few tasks of each shape only: does everything work?")
    add("--resume", action="store_true", help="go on with what was measured before, in this cache")
    add("--into", type=Path, metavar="FILE", help="write the table between the markers of this page, or as a new file")
    add("--cache", type=Path, default=cache_folder(), metavar="FOLDER", help="virtual environments and measurements")
    return parser
