"""`python -m benchmarks SHAPE [--executor local|inline] [--callable async|sync] [-o table|json|markdown]`.

`python -m benchmarks simulate-year` needs no database: see simulate_year.py.

Exit codes: 0 measured and verified, 1 the verification failed or it took too long, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import logging
import sys

import uvloop

from benchmarks import simulate_year
from benchmarks.report import MARKDOWN_HEAD, as_json, as_markdown, as_table
from benchmarks.run import TooSlow, run
from benchmarks.shapes import SHAPES, Shape


def main(argv: list[str] | None = None) -> int:
    if (sys.argv[1:] if argv is None else argv)[:1] == ["simulate-year"]:
        return simulate_year.main()
    options = _parser().parse_args(argv)
    shape = SHAPES[options.shape]
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    measured = run(
        shape,
        executor=options.executor,
        kind=options.callable,
        lead=options.lead if options.lead is not None else _default_lead(shape),
        timeout=options.timeout,
    )
    try:
        result = uvloop.run(measured)
    except TooSlow as error:
        print(f"{shape.name}: {error}", file=sys.stderr)
        return 1
    if options.output == "markdown":
        if result.problems:
            print(*result.problems, sep="\n", file=sys.stderr)
            return 1
        print(f"{MARKDOWN_HEAD}\n{as_markdown(result)}" if options.head else as_markdown(result))
    else:
        print(as_json(result) if options.output == "json" else as_table(result))
    return 1 if result.problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Run one shape through the real service on an embedded, durable PostgreSQL, verify it, measure it.",
    )
    parser.add_argument("shape", choices=SHAPES, metavar="SHAPE", help=", ".join(SHAPES))
    parser.add_argument("--executor", choices=("local", "inline"), default="inline", help="default: inline")
    parser.add_argument("--callable", choices=("async", "sync"), default="async", help="default: async")
    parser.add_argument("-o", "--output", choices=("table", "json", "markdown"), default="table", help="default: table")
    parser.add_argument("--head", action="store_true", help="with -o markdown: the table's head above the row")
    parser.add_argument("--lead", type=float, metavar="S", help="seconds for reading the DAGs before they are due")
    parser.add_argument("--timeout", type=float, metavar="S", default=300.0, help="seconds it may take; default: 300")
    return parser


def _default_lead(shape: Shape) -> float:
    """Generous: what is left of it is waited out and is in no figure."""
    return 8.0 + shape.total / 1500


if __name__ == "__main__":
    sys.exit(main())
