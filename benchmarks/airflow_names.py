"""What it costs that a DAG file imports `airflow` instead of `aiosched`: the import, and the parsing of many files."""

from __future__ import annotations

import asyncio
import statistics
import sys
from typing import Final

from benchmarks import measure
from benchmarks.figures import Figure, Finding
from benchmarks.parsing import FILE, processor_time

_IMPORTS: Final = 15
_CLOCK: Final = """\
import time
began = time.process_time()
{code}
print(time.process_time() - began)
"""
_OURS: Final = "from aiosched import DAG"
_AIRFLOW: Final = "from aiosched.airflow.finder import install\ninstall('compat')\nfrom airflow import DAG"


async def airflow_names(size: int, timeout: float) -> Finding:
    """Imports of `DAG` in fresh interpreters, and `size` files, with both names; processor time, alternating."""
    ours, airflow = [], []
    for _ in range(_IMPORTS):
        ours.append(await _seconds(_OURS))
        airflow.append(await _seconds(_AIRFLOW))
    old = FILE.replace("from aiosched import DAG, task", "from airflow import DAG\nfrom airflow.decorators import task")
    parsed, problem = await processor_time(size, FILE, timeout)
    parsed_old, problem_old = await processor_time(size, old, timeout)
    imported, imported_old = statistics.median(ours), statistics.median(airflow)
    return Finding(
        "airflow-names",
        f"{size:,} files, {_IMPORTS} imports",
        measure.machine(),
        [
            Figure("from aiosched import DAG", imported * 1000, "ms"),
            Figure("from airflow import DAG", imported_old * 1000, "ms"),
            Figure("import, ratio", imported_old / imported, "", most=1.2),
            Figure("parsing a file that imports aiosched", parsed, "ms"),
            Figure("parsing a file that imports airflow", parsed_old, "ms"),
            Figure("parsing, ratio", parsed_old / parsed, "", most=1.2),
        ],
        tuple(one for one in (problem, problem_old) if one),
    )


async def _seconds(code: str) -> float:
    """The processor time that `code` takes in a fresh interpreter."""
    program = _CLOCK.format(code=code)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return float(out)
