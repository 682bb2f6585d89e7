"""The calls of a shape as pods, without aiosched: created through the API, each when those before it have succeeded."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any, Final

from benchmarks.bare_engines import last_end
from benchmarks.engine_processes import kubernetes_node
from benchmarks.processes import temporary_folders
from benchmarks.shapes import Shape

_LOOK: Final = 0.02  # seconds between two looks at the pods
_BODY: Final = """\
import os, sys, time

records, dag_id, task_id = sys.argv[1:]
start, pid = time.monotonic(), os.getpid()
with open(f"{records}/{pid}", "a") as file:
    file.write(f"{dag_id} {task_id} 1 {pid} {start!r} {time.monotonic()!r}\\n")
"""


async def bare_kubernetes(shape: Shape) -> float:
    """Seconds from the first creation to the end of the last body. Pods do nothing but that: an interpreter starts."""
    from kubernetes_asyncio import client, config

    with temporary_folders() as folders, kubernetes_node(folders, {}) as kubeconfig:
        script = folders.root / "body.py"
        script.write_text(_BODY)
        await config.load_kube_config(str(kubeconfig))
        async with client.ApiClient() as api:
            core: Any = client.CoreV1Api(api)
            left = {(dag, task): set(up) for dag in shape.dag_ids() for task, up in shape.upstreams().items()}
            calls: dict[str, tuple[str, str]] = {}  # by the names of pods
            ended = set[str]()

            async def create_ready() -> None:
                for dag_id, task_id in [call for call, upstreams in left.items() if not upstreams]:
                    del left[dag_id, task_id]
                    name = f"bare-{len(calls)}"
                    calls[name] = dag_id, task_id
                    words = [sys.executable, str(script), str(folders.records), dag_id, task_id]
                    container = {"name": "base", "image": "aiosched", "command": words}
                    body = {
                        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                        "spec": {"restartPolicy": "Never", "containers": [container]},
                    }  # fmt: skip
                    await core.create_namespaced_pod("default", body)

            began = time.monotonic()
            await create_ready()
            while len(ended) < shape.total:
                await asyncio.sleep(_LOOK)
                for pod in (await core.list_namespaced_pod("default")).items:
                    name = pod.metadata.name
                    if pod.status.phase != "Succeeded" or name in ended:
                        continue
                    ended.add(name)
                    dag_id, task_id = calls[name]
                    for (dag, _), upstreams in left.items():
                        if dag == dag_id:
                            upstreams.discard(task_id)
                await create_ready()
        return last_end(shape, folders.records) - began
