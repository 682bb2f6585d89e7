"""What is wrong with plugins and cluster policies, or of them without effect; told by a process that imports them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import NamedTuple

from aiosched.authoring.plugins.loading import plugin_entry_points
from aiosched.authoring.plugins.policies import LOCAL_SETTINGS
from aiosched.config import Settings
from aiosched.config.secret_environment import without_secrets
from aiosched.errors import ConfigError
from aiosched.other_user import command_as, environment_of, missing_rights, other_user


class PluginFinding(NamedTuple):
    """One sentence; `is_error`: it cannot be loaded."""

    text: str
    is_error: bool = False


class PluginFindings(NamedTuple):
    """The names of the plugins, and what is to be said of them."""

    plugins: list[str]
    findings: list[PluginFinding]


async def find_plugins(settings: Settings, dags_folder: Path | None = None) -> PluginFindings | None:
    """The plugins of the project of `dags_folder` (None: of the settings); None if there are none.

    The process has the rights of DAG files, and the time of one.
    """
    root = dags_folder or settings.core.dags_folder
    plugins, modules = settings.plugins_folder(dags_folder), [root, *settings.module_folders(dags_folder)]
    has_policies = any((folder / f"{LOCAL_SETTINGS}.py").is_file() for folder in modules)
    if not (has_policies or plugins.is_dir() or plugin_entry_points()):
        return None
    places = [str(place.absolute()) for place in (plugins, *modules)]
    command, environ = [sys.executable, "-m", "aiosched.parsing.plugin_report", *places], dict(os.environ)
    if settings.executor.run_as is not None and not missing_rights():
        try:
            user = other_user(settings.executor.run_as, "executor.run_as")
        except ConfigError:  # which the look at that setting says
            return None
        command, environ = command_as(user, command), environment_of(user, environ)
    process = await asyncio.create_subprocess_exec(
        *command, env=without_secrets(environ), start_new_session=True,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    limit = settings.core.dagbag_import_timeout
    try:
        async with asyncio.timeout(limit):
            out, err = await process.communicate()
        report = json.loads(out.decode().splitlines()[-1])
    except TimeoutError:
        return PluginFindings([], [PluginFinding(f"they take longer than {limit:g} s to import", is_error=True)])
    except (IndexError, ValueError):
        last = (err.decode(errors="replace").splitlines() or ["no output"])[-1]
        return PluginFindings([], [PluginFinding(f"they cannot be loaded: {last}", is_error=True)])
    finally:  # also when the command is interrupted
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    findings = [PluginFinding(f"{one['where']}: {one['text']}", one["is_error"]) for one in report["problems"]]
    return PluginFindings(report["plugins"], findings)
