"""A DAG file with provider classes in the real service: as a user would run it, by commands.

Connections are added by `aiosched connections add`, the DAG is run by `aiosched serve` (scheduler, worker processes,
triggers) on a database, and what became of it is read by `runs show`, `tasks xcoms` and `tasks logs`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet
from typer.testing import CliRunner

from aiosched.cli.app import app

PATIENCE = 300  # seconds for a run


@dataclass(frozen=True)
class Ran:
    """What became of one task: its state, why, its XComs and its log."""

    state: str
    reason: str
    xcoms: Mapping[str, Any]
    log: str

    @property
    def result(self) -> Any:
        """What it returned."""
        return self.xcoms.get("return_value")


@dataclass(frozen=True)
class Service:
    """Runs DAG files with the provider packages of `site`, on the database `dsn`."""

    site: Path
    folder: Path
    dsn: str
    environment: Mapping[str, str] = field(default_factory=dict)
    key: str = field(default_factory=lambda: Fernet.generate_key().decode())  # encrypts its connections

    def connect(self, conn_id: str, **fields: Any) -> None:
        """Store a connection."""
        self._command("connections", "add", conn_id, "--json", json.dumps(fields))

    def test_connection(self, conn_id: str) -> str:
        """What `connections test` says: the hook of the provider has been asked."""
        return self._process("connections", "test", conn_id, "--timeout", "100")

    def run(self, source: str, *, dag_id: str) -> dict[str, Ran]:
        """Serve a file until its DAG, whose schedule is @once, has run; the tasks by id."""
        dags = self.folder / "dags"
        dags.mkdir(exist_ok=True)
        (dags / f"{dag_id}.py").write_text(source, encoding="utf-8")
        said = self._process("serve", "--no-web", "--until-idle", "--slots", "2", "--dags", str(dags))
        assert f" {dag_id} " in said, said + self._command("dags", "errors")
        shown = self._read("runs", "show", dag_id, "latest")
        return {one["task_id"]: self._ran(dag_id, one) for one in shown["tasks"]}

    def _ran(self, dag_id: str, shown: Mapping[str, Any]) -> Ran:
        task = (dag_id, "latest", shown["task_id"])
        xcoms = {one["key"]: json.loads(one["value"]) for one in self._read("tasks", "xcoms", *task)}
        return Ran(shown["state"], shown["reason"] or "", xcoms, self._command("tasks", "logs", *task))

    def _read(self, *words: str) -> Any:
        return json.loads(self._command(*words, "-o", "json"))

    def _command(self, *words: str) -> str:
        """Run a short command in this process, which saves the start of an interpreter."""
        done = CliRunner().invoke(app, words, env=self._settings(), prog_name="aiosched")
        assert done.exit_code == 0, f"aiosched {' '.join(words)}: {done.output}"
        return done.stdout

    def _process(self, *words: str) -> str:
        """Run a command in a process of its own, which finds the provider packages."""
        done = subprocess.run(
            [sys.executable, "-m", "aiosched", *words],
            env={**os.environ, **self._settings(), "PYTHONPATH": str(self.site), **self.environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"aiosched {' '.join(words)}: {done.stderr}"
        return done.stdout + done.stderr

    def _settings(self) -> dict[str, str]:
        return {
            "AIOSCHED_DSN": self.dsn,
            "AIOSCHED_HOME": str(self.folder / "home"),
            "AIOSCHED__CORE__DAGBAG_IMPORT_TIMEOUT": "100",  # machines of tests are busy
            "AIOSCHED__SECRETS__FERNET_KEYS": self.key,
        }


def check_states(ran: Mapping[str, Ran], expected: Mapping[str, str]) -> None:
    """Each task ended as expected; of the others the whole reason and log are shown."""
    others = {task_id: one for task_id, one in ran.items() if one.state != expected.get(task_id)}
    told = "\n".join(f"{task_id}: {one.state}: {one.reason}\n{one.log}" for task_id, one in others.items())
    assert {task_id: one.state for task_id, one in ran.items()} == expected, told
