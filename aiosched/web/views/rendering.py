"""The template fields of a task instance, rendered by a child process.

The web process never imports DAG files: it runs `aiosched tasks render` in a session of its own, which is killed with
all that it started if it takes too long. A few run at a time, others wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import Any, Final

import msgspec

from aiosched.config import Settings
from aiosched.config.bundles import shown_bundles
from aiosched.db.queries.queries import DagListRow, RunRow, TaskRow
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound
from aiosched.web.server.problems import Problem

_AT_A_TIME: Final = 2
_START_SECONDS: Final = 15.0  # seconds for starting the process, in addition to the import of the file
_MOST_OUTPUT: Final = 2**22


class Renderer:
    """One for each web application. `command`: the command to run, by default this Python's aiosched."""

    def __init__(self, db: Database, settings: Settings, command: tuple[str, ...] | None = None) -> None:
        self._db, self._settings = db, settings
        self._command = command or (sys.executable, "-m", "aiosched")
        self._places = asyncio.Semaphore(_AT_A_TIME)
        self.limit = _START_SECONDS + settings.core.dagbag_import_timeout

    async def render(self, dag: DagListRow, run: RunRow, task: TaskRow) -> dict[str, Any]:
        """The fields by name. Raises Problem 409 if they cannot be rendered, and 504 if it takes too long."""
        self._check_file(dag)
        options = ["-o", "json"]
        if task.map_index >= 0:
            options += ["--map-index", str(task.map_index)]
        async with self._places:
            code, out, talk = await self._run("tasks", "render", *options, "--", dag.dag_id, run.run_id, task.task_id)
        if code == 0:
            with contextlib.suppress(msgspec.MsgspecError):
                return msgspec.json.decode(out, type=dict[str, Any])
        reason = talk.strip().rpartition("\n")[2] or f"It ended with exit code {code}."
        if code == NotFound.exit_code:
            raise NotFound(reason.removeprefix("error: "))
        raise Problem(409, "not-rendered", reason.removeprefix("error: "))

    def _check_file(self, dag: DagListRow) -> None:
        if dag.file is None:
            detail = f"DAG {dag.dag_id!r} belongs to an application, which alone can render its fields."
            raise Problem(409, "no-file", detail)
        if self._settings.dags.bundles:  # the command finds, and perhaps fetches, its code
            return
        folder = self._settings.core.dags_folder.absolute()
        path = folder / dag.file
        if not any(
            one.is_file() for one in (path, *path.parents)
        ):  # a member of a zip file has the folder among its parents
            raise Problem(
                409,
                "no-file",
                f"{dag.file} is not in {folder}, where this web server looks for DAG files. Ask a web server on a "
                "machine with the files, or set core.dags_folder.",
            )

    async def _run(self, *arguments: str) -> tuple[int, bytes, str]:
        child = await asyncio.create_subprocess_exec(
            *self._command,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **self._environment()},
            start_new_session=True,
        )
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            async with asyncio.timeout(self.limit):
                out, talk = await asyncio.gather(_read(child.stdout), _read(child.stderr))
                code = await child.wait()
        except TimeoutError:
            detail = f"The DAG file took more than {self.limit:g} s; what rendered it was stopped."
            raise Problem(504, "timed-out", detail) from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
        return code, out, talk.decode(errors="replace")

    def _environment(self) -> dict[str, str]:
        found = {
            "AIOSCHED_DSN": self._db.dsn,  # not as an argument, which everybody on the machine can read
            "AIOSCHED_HOME": str(self._settings.core.home.absolute()),
            "AIOSCHED_DAGS": str(self._settings.core.dags_folder.absolute()),
            "NO_COLOR": "1",
        }
        if self._settings.dags.bundles:
            found["AIOSCHED__DAGS__BUNDLES"] = json.dumps(shown_bundles(self._settings.dags.bundles))
        if self._settings.secrets.fernet_keys:
            found["AIOSCHED__SECRETS__FERNET_KEYS"] = self._settings.secrets.fernet_keys
        return found


async def _read(stream: asyncio.StreamReader) -> bytes:
    """Read to the end, and return the first part."""
    kept = bytearray()
    while chunk := await stream.read(2**16):
        kept += chunk[: max(_MOST_OUTPUT - len(kept), 0)]
    return bytes(kept)
