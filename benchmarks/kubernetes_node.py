"""A cluster of one node in a process of its own: the API server and the kubelet of our tests. `python -m … FOLDER`.

`BENCHMARK_PODS` has the environment of pods, as JSON. Each pod is a process of this machine, in which an interpreter
starts; nothing else of a real node takes time (images, networks, the kubelet's own pauses).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from tests.engines.kubelet import Kubelet
from tests.engines.kubernetes_api import KubernetesApi


async def main(folder: Path) -> None:
    """Serve until this process is told to end; the kubeconfig in the folder appears once it answers."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    api = KubernetesApi()
    await api.start()
    kubelet = Kubelet(api, folder / "pods", json.loads(os.environ["BENCHMARK_PODS"]))
    made = folder / "made"
    made.mkdir()
    api.kubeconfig(made).rename(folder / "kubeconfig")  # whole at once
    try:
        await ended.wait()
    finally:
        await kubelet.close()
        await api.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
