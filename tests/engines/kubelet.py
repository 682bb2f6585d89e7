"""A scheduler and a kubelet for the test API server: really runs the commands of pods, as processes of this machine.

An image is the command that is its entry point. Secrets of volumes become files in a folder of the pod, and paths below
their mount points are replaced by paths into that folder. A container ends as a whole: with all its processes.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tests.engines.kubernetes_api import KubernetesApi
from tests.engines.kubernetes_store import Object, now

AIOSCHED = (sys.executable, "-P", "-m", "aiosched")
NODE = "node-1"


class Kubelet:
    """Runs the pods of an API server until it is closed. `image_errors`: why an image cannot be pulled, by its name."""

    def __init__(self, api: KubernetesApi, folder: Path, environment: dict[str, str]) -> None:
        self.api, self.store, self.folder = api, api.store, folder
        self.environment = environment  # of the image
        self.images = {"aiosched": AIOSCHED}
        self.image_errors: dict[str, str] = {}
        self.has_room: Callable[[Object], bool] = lambda pod: True
        self.is_partitioned = False  # processes run, and the API server hears nothing
        self.started: list[str] = []  # names of pods, in the order of their starts
        self._processes: dict[str, asyncio.subprocess.Process] = {}  # by uid
        self._deletions: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        api.on_delete = self._delete
        self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        self._watching.cancel()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(self._watching, *self._tasks.values(), return_exceptions=True)
        for process in self._processes.values():
            _kill(process.pid)
            await process.wait()

    async def _watch(self) -> None:
        while True:
            for namespace in self.store.namespaces:
                for pod in self.store.all("pods", namespace):
                    uid = pod["metadata"]["uid"]
                    if uid not in self._tasks:
                        self._deletions[uid] = asyncio.Event()
                        self._tasks[uid] = asyncio.create_task(self._run(pod))
            async with self.store.changed:
                await self.store.changed.wait()

    def _delete(self, pod: Object) -> None:
        if (event := self._deletions.get(pod["metadata"]["uid"])) is not None:
            event.set()

    # -- one pod

    async def _run(self, pod: Object) -> None:
        try:
            if await self._place(pod) and await self._prepare(pod):
                await self._execute(pod)
        except Exception as error:  # shown where a test looks
            self._status(pod, phase="Failed", reason="TestKubelet", message=f"{type(error).__name__}: {error}")
            raise

    async def _until(self, pod: Object, condition: Callable[[], object]) -> bool:
        """Wait for it; False if the pod is deleted before."""
        deletion = self._deletions[pod["metadata"]["uid"]]
        async with self.store.changed:
            await self.store.changed.wait_for(lambda: condition() or deletion.is_set() or self._newest(pod) is None)
        return not deletion.is_set() and self._newest(pod) is not None

    def _newest(self, pod: Object) -> Object | None:
        found = self.store.find("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
        return found if found is not None and found["metadata"]["uid"] == pod["metadata"]["uid"] else None

    async def _place(self, pod: Object) -> bool:
        if not self.has_room(pod):
            message = "0/1 nodes are available: 1 Insufficient cpu."
            self._condition(pod, "PodScheduled", "False", "Unschedulable", message)
            if not await self._until(pod, lambda: self.has_room(pod)):
                return False
        self.store.update("pods", pod, lambda new: new["spec"].__setitem__("nodeName", NODE))
        self._condition(pod, "PodScheduled", "True")
        self._status(pod, hostIP="10.0.0.1", startTime=now())
        return True

    async def _prepare(self, pod: Object) -> bool:
        """Pull images and wait for volumes; False if the pod is deleted meanwhile."""
        self._containers(pod, {"waiting": {"reason": "ContainerCreating"}})
        for container in pod["spec"]["containers"]:
            image = container["image"]
            while (error := self.image_errors.get(image)) is not None:
                if error.startswith("Create") or error == "InvalidImageName":
                    self._containers(pod, {"waiting": {"reason": error, "message": f"{image}: {error}"}})
                else:
                    self._containers(pod, {"waiting": {"reason": "ErrImagePull", "message": f"{image}: not found"}})
                    self._containers(
                        pod, {"waiting": {"reason": error, "message": f'Back-off pulling image "{image}"'}}
                    )
                if not await self._until(pod, partial(self._image_changed, image, error)):
                    self._end(pod, "the pod was deleted")
                    return False
        sources = [one["secret"] for one in pod["spec"].get("volumes") or () if "secret" in one]
        names = [source["secretName"] for source in sources if not source.get("optional")]
        namespace = pod["metadata"]["namespace"]
        if not await self._until(pod, lambda: all(self.store.find("secrets", namespace, name) for name in names)):
            self._end(pod, "the pod was deleted")
            return False
        return True

    def _image_changed(self, image: str, error: str) -> bool:
        return self.image_errors.get(image) != error

    async def _execute(self, pod: Object) -> None:
        uid, container = pod["metadata"]["uid"], pod["spec"]["containers"][0]
        folder = self.folder / uid
        folder.mkdir(parents=True)
        paths = self._mount(pod, container, folder)

        def inside(text: str) -> str:
            for path, real in paths.items():
                text = text.replace(path, real)
            return text

        command = container.get("command") or self.images[container["image"]]
        words = [inside(word) for word in (*command, *container.get("args", ()))]
        environment = {**os.environ, **self.environment, "AIOSCHED_HOME": str(folder / "home")}
        environment |= {one["name"]: self._value(pod, one) for one in container.get("env") or ()}
        log = folder / "log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *words, env=environment, stdout=output, stderr=output, stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True, cwd=folder,
            )  # fmt: skip
        self._processes[uid] = process
        self.started.append(pod["metadata"]["name"])
        self._containers(pod, {"running": {"startedAt": now()}}, phase="Running")
        helpers = [
            asyncio.create_task(self._terminate(pod, process)),
            asyncio.create_task(self._refresh(pod, container, folder)),
        ]
        try:
            code = await process.wait()
        finally:
            for helper in helpers:
                helper.cancel()
        del self._processes[uid]
        if self.is_partitioned or self._newest(pod) is None:
            return
        self._finish(pod, container, code, log)
        if self._deletions[uid].is_set():
            self.store.remove("pods", pod)

    async def _terminate(self, pod: Object, process: asyncio.subprocess.Process) -> None:
        await self._deletions[pod["metadata"]["uid"]].wait()
        newest = self._newest(pod)
        grace = newest["metadata"].get("deletionGracePeriodSeconds", 0) if newest is not None else 0
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await asyncio.sleep(grace)
        _kill(process.pid)

    def _finish(self, pod: Object, container: Object, code: int, log: Path) -> None:
        status = (self._newest(pod) or pod)["status"]
        ended: Object = {"exitCode": code if code >= 0 else 128 - code, "startedAt": now(), "finishedAt": now()}
        ended["reason"] = "Completed" if code == 0 else (status.get("message") == "oom" and "OOMKilled") or "Error"
        if code != 0 and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            ended["message"] = log.read_text(errors="replace")[-2048:]
        if status.get("message") == "oom":
            self.store.update("pods", pod, lambda new: new["status"].pop("message"))
        self._containers(pod, {"terminated": ended}, phase="Succeeded" if code == 0 else "Failed")

    def _end(self, pod: Object, why: str) -> None:
        """A pod that never ran is removed."""
        if self._newest(pod) is not None:
            self.store.remove("pods", pod)

    def _mount(self, pod: Object, container: Object, folder: Path) -> dict[str, str]:
        secrets = {one["name"]: one["secret"] for one in pod["spec"].get("volumes") or () if "secret" in one}
        paths = {}
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            if (volume := secrets.get(mount["name"])) is None:
                continue
            place = folder / f"volume-{index}"
            place.mkdir()
            self._fill(pod, volume, place)
            paths[mount["mountPath"]] = str(place)
        return paths

    def _fill(self, pod: Object, volume: Object, place: Path) -> None:
        """Write the files of a Secret, as far as it is there."""
        found = self.store.find("secrets", pod["metadata"]["namespace"], volume["secretName"])
        if found is None:
            return
        for item in volume.get("items") or [{"key": key, "path": key} for key in found["data"]]:
            new = place / f".{item['path']}"
            new.write_bytes(base64.b64decode(found["data"][item["key"]]))
            new.rename(place / item["path"])

    async def _refresh(self, pod: Object, container: Object, folder: Path) -> None:
        """Look at Secrets again when the labels of the pod change, as a kubelet does; it also does after a minute."""
        while True:
            known = (self._newest(pod) or pod)["metadata"].get("labels")
            async with self.store.changed:
                await self.store.changed.wait_for(
                    lambda known=known: (self._newest(pod) or pod)["metadata"].get("labels") != known  # type: ignore[misc]
                )
            volumes = {one["name"]: one.get("secret") for one in pod["spec"].get("volumes") or ()}
            for index, mount in enumerate(container.get("volumeMounts") or ()):
                if (volume := volumes.get(mount["name"])) is not None:
                    self._fill(pod, volume, folder / f"volume-{index}")

    def _value(self, pod: Object, variable: Object) -> str:
        if "value" in variable:
            return str(variable["value"])
        reference = variable["valueFrom"]["secretKeyRef"]
        found = self.store.get("secrets", pod["metadata"]["namespace"], reference["name"])
        return base64.b64decode(found["data"][reference["key"]]).decode()

    # -- status

    def _status(self, pod: Object, **fields: Any) -> None:
        if not self.is_partitioned:
            self.store.update("pods", pod, lambda new: new["status"].update(fields))

    def _condition(self, pod: Object, type_: str, status: str, reason: str = "", message: str = "") -> None:
        condition = {"type": type_, "status": status, "lastTransitionTime": now()}
        condition |= {key: value for key, value in (("reason", reason), ("message", message)) if value}

        def change(new: Object) -> None:
            others = [one for one in new["status"].get("conditions", ()) if one["type"] != type_]
            new["status"]["conditions"] = [*others, condition]

        self.store.update("pods", pod, change)

    def _containers(self, pod: Object, state: Object, **fields: Any) -> None:
        statuses = [
            {
                "name": one["name"], "image": one["image"], "imageID": "", "ready": "running" in state,
                "restartCount": 0, "started": "running" in state, "state": state,
            }
            for one in pod["spec"]["containers"]
        ]  # fmt: skip
        self._status(pod, containerStatuses=statuses, **fields)

    # -- faults

    def pod(self, number: int = 0, namespace: str = "default") -> Object:
        return self.store.all("pods", namespace)[number]

    def kill(self, pod: Object) -> None:
        """All processes of the pod die."""
        _kill(self._processes[pod["metadata"]["uid"]].pid)

    def run_out_of_memory(self, pod: Object) -> None:
        self._status(pod, message="oom")
        self.kill(pod)

    def evict(self, pod: Object) -> None:
        """The node is short of memory: it ends the pod at once."""
        message = "The node was low on resource: memory."
        self._condition(pod, "DisruptionTarget", "True", "TerminationByKubelet", message)
        self._status(pod, reason="Evicted", message=message)
        self.kill(pod)

    def preempt(self, pod: Object) -> None:
        """The scheduler needs the room: the pod is deleted with its grace."""
        message = "default-scheduler: preempting to accommodate a higher priority pod"
        self._condition(pod, "DisruptionTarget", "True", "PreemptionByScheduler", message)
        self.api.delete("pods", self._newest(pod) or pod)

    def lose_node(self, pod: Object, *, dies: bool) -> None:
        """Nobody hears of the node any more, and its pods are removed. `dies`: so do its processes."""
        self.is_partitioned = True
        if dies:
            self.kill(pod)
        self._condition(pod, "DisruptionTarget", "True", "DeletionByPodGC", "PodGC: node no longer exists")
        self.store.update("pods", pod, lambda new: new["status"].update(phase="Failed"))
        self.store.remove("pods", pod)


def _kill(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        for process in [first, *first.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
