"""A scheduler that is killed at a bad moment leaves no process behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE

# Asks for a file to be parsed and dies while its supervisor is still importing.
DIES_AT_ONCE = """
import asyncio, os, signal, sys
from pathlib import Path
from aiosched.config import Settings
from aiosched.parsing.discovery import DagFile
from aiosched.parsing.pool import ParsingPool

async def main():
    pool = ParsingPool(Settings(), root=sys.argv[1])
    asyncio.ensure_future(pool.parse(DagFile("a.py", Path(sys.argv[1], "a.py"), "", 0)))
    while not pool.pids:
        await asyncio.sleep(0)
    print(*pool.pids, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_a_parsing_supervisor_that_is_orphaned_while_it_starts_ends(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    killed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", DIES_AT_ONCE, str(tmp_path)], stdout=subprocess.PIPE, check=False
    )
    pids = [int(word) for word in killed.stdout.split()]

    assert pids
    async with asyncio.timeout(PATIENCE):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                await _ended(os.pidfd_open(pid))


async def _ended(process: int) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(process)
        os.close(process)
