"""Ten thousand mapped instances in a process of their own: each runs once, and what they hold.

How long that takes is in `docs/benchmarks.md`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from benchmarks.figures import from_json

MANY = 10_000
ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import asyncio, sys
import asyncpg
from benchmarks.figures import as_json
from benchmarks.mapped import mapped_on
from benchmarks.stage import Stage, temporary_folders

async def main(dsn, size):
    conn = await asyncpg.connect(dsn)
    with temporary_folders() as folders:
        finding = await mapped_on(Stage(folders, dsn, conn), size, 300.0)
    await conn.close()
    print(as_json(finding))

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


async def test_thousands_of_mapped_instances_run_once_each_in_half_a_gigabyte(dsn: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, dsn, str(MANY)), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    output, _ = await process.communicate()

    finding = from_json(output.decode())
    (memory,) = [figure for figure in finding.figures if figure.unit == "MB"]

    assert finding.problems == ()
    assert (memory.most, memory.verdict) == (500, "reached")
