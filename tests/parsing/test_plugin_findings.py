"""The process that imports plugins to say what is wrong with them ends with who asks."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiosched.config import Settings, load_settings
from aiosched.leftovers import read_process
from aiosched.parsing.plugin_findings import find_plugins
from tests.patience import PATIENCE

HANGS = """
import os, subprocess, time
child = subprocess.Popen(["sleep", "1000"])
with open({pids!r} + ".new", "w") as file:
    file.write(f"{{os.getpid()}} {{child.pid}}")
os.rename({pids!r} + ".new", {pids!r})
time.sleep(1000)
"""


def settings_of(folder: Path) -> Settings:
    (folder / "plugins").mkdir()
    (folder / "dags").mkdir()
    (folder / "plugins" / "hbhangs.py").write_text(HANGS.format(pids=str(folder / "pids")))
    settings = load_settings({"core.dags_folder": folder / "dags"}, environ={}).settings
    settings.core.dagbag_import_timeout = PATIENCE
    return settings


async def test_a_plugin_that_hangs_is_ended_with_what_it_started_when_its_command_is(tmp_path: Path) -> None:
    asking = asyncio.create_task(find_plugins(settings_of(tmp_path)))
    async with asyncio.timeout(PATIENCE):
        while not (tmp_path / "pids").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    asking.cancel()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait([asking])

    for pid in (tmp_path / "pids").read_text().split():
        left = read_process(int(pid))
        assert left is None or left.has_ended
