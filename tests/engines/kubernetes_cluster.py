"""What tests of the engine Kubernetes share: a cluster of the test API server, and a DAG of one task that waits."""

from __future__ import annotations

from pathlib import Path

from aiosched.config import Settings
from tests.engines.kubelet import Kubelet
from tests.engines.kubernetes_api import KubernetesApi

WAITS = """
import os, time
from pathlib import Path
from aiosched import DAG, task

HERE = Path({here!r})

def note(word):
    with (HERE / "notes").open("a") as file:
        file.write(f"{{word}} {{os.getpid()}}\\n")

with DAG("d", schedule=None):
    @task(executor_config={config!r})
    def waits():
        note("begins")
        while not (HERE / "go").exists():
            time.sleep(0.02)
        note("ends")
        return "done"

    waits()
"""

LOST = "SELECT reason FROM task_try WHERE state = 'lost' ORDER BY try_number"


def use(api: KubernetesApi, settings: Settings, folder: Path) -> Kubelet:
    """A node of the cluster, and the settings to use it."""
    options = settings.kubernetes
    options.kubeconfig, options.image, options.requests_per_second = api.kubeconfig(folder), "aiosched", 500.0
    environment = {
        "AIOSCHED_DAGS": str(settings.core.dags_folder),
        "AIOSCHED__CORE__KILLED_TASK_CLEANUP_TIME": "0.5",
        "AIOSCHED__EXECUTOR__SLOTS": "1",
    }
    return Kubelet(api, folder / "pods", environment)


class OneTask:
    """The DAG `d` in a DAGs folder, and what its task has noted."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self.write({})

    def write(self, config: dict[str, object]) -> None:
        """The DAG with an executor_config of its task."""
        code = WAITS.format(here=str(self.folder), config=config)
        (self.settings.core.dags_folder / "d.py").write_text(code)

    def go(self) -> None:
        (self.folder / "go").touch()

    def notes(self) -> list[str]:
        file = self.folder / "notes"
        return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []
