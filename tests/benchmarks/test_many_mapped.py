"""Ten thousand mapped instances in a process of their own: each runs once, and what they hold.

How long that takes is in `docs/benchmarks.md`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from benchmarks.figures import from_json

MANY = 10_000
ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import asyncio, sys
from benchmarks.figures import as_json
from benchmarks.mapped import mapped_on
from benchmarks.processes import temporary_folders
from benchmarks.stage import staged

async def main(dsn, size):
    with temporary_folders() as folders:
        async with staged(folders, dsn) as at:
            finding = await mapped_on(at, size, 300.0)
    print(as_json(finding))

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.slow
async def test_thousands_of_mapped_instances_run_once_each_in_half_a_gigabyte(empty_dsn: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, empty_dsn, str(MANY)), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    output, _ = await process.communicate()

    finding = from_json(output.decode())
    (memory,) = [figure for figure in finding.figures if figure.unit == "MB"]

    assert finding.problems == ()
    assert (memory.most, memory.verdict) == (500, "reached")
