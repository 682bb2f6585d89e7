"""A cluster for pods of tasks: the test API server with logs, events and exec, and a kubelet for several containers.

Empty directories and `/tmp` of a pod are folders of this machine; paths in commands are replaced by paths into them.
Programs on stdin of an exec are not run: one that sends signals ends the container.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.engines.kubelet import Kubelet
from tests.engines.kubernetes_api import KubernetesApi
from tests.engines.kubernetes_store import Object, Refused, now

STDIN, STDOUT, STATUS = 0, 1, 3  # channels of an exec
SUCCESS = {"metadata": {}, "status": "Success"}


@dataclass
class PodContainer:
    """A container that runs or has ended, and the lines of its log."""

    process: asyncio.subprocess.Process
    paths: Mapping[str, str]
    lines: list[tuple[str, bytes]] = field(default_factory=list)  # the instant, and the text
    ended: bool = False
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def inside(self, text: str) -> str:
        """The text with paths of this machine."""
        return inside(text, self.paths)

    async def read(self) -> None:
        """Collect the log until the process ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self.changed:
                self.lines.append((datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z"), line))
                self.changed.notify_all()
        await self.process.wait()
        async with self.changed:
            self.ended = True
            self.changed.notify_all()

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def _folders(pod: Object, container: Object, folder: Path) -> dict[str, str]:
    """The folders that stand for paths of the container."""
    empty = {one["name"] for one in pod["spec"].get("volumes") or () if "emptyDir" in one}
    paths = {"/tmp/": f"{folder}/tmp-{container['name']}/"}
    for mount in container.get("volumeMounts") or ():
        if mount["name"] in empty:
            paths[mount["mountPath"]] = f"{folder}/{mount['name']}"
    for path in paths.values():
        Path(path).mkdir(parents=True, exist_ok=True)
    return paths


def inside(text: str, paths: Mapping[str, str]) -> str:
    for path, real in paths.items():
        text = text.replace(path, real)
    return text


class PodsApi(KubernetesApi):
    """The API server. Its kubelet enters the containers of pods in `containers`, by pod and name."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds.add("events")
        self.containers: dict[tuple[str, str], PodContainer] = {}

    def connection(self) -> dict[str, Any]:
        """The fields of a connection to it."""
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": self.token}}],
        }  # fmt: skip
        return {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(config), "namespace": "default"}}

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/v1/namespaces/{namespace}/{kind:events}", self._events)
        router.add_get("/api/v1/namespaces/{namespace}/{kind:pods}/{name}/log", self._log)
        router.add_get("/api/v1/namespaces/{namespace}/{kind:pods}/{name}/exec", self._exec)

    async def _events(self, request: web.Request) -> web.Response:
        metadata = {"resourceVersion": str(self.store.version)}
        return web.json_response({"apiVersion": "v1", "kind": "EventList", "metadata": metadata, "items": []})

    def _container(self, request: web.Request) -> PodContainer:
        name, container = request.match_info["name"], request.query["container"]
        if (found := self.containers.get((name, container))) is None:
            raise Refused(400, "BadRequest", f'container "{container}" in pod "{name}" is waiting to start')
        return found

    async def _log(self, request: web.Request) -> web.StreamResponse:
        container = self._container(request)
        follows, stamps = (request.query.get(name) == "true" for name in ("follow", "timestamps"))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        sent = 0
        while True:
            for instant, text in container.lines[sent:]:
                await response.write((f"{instant} ".encode() if stamps else b"") + text)
                sent += 1
            if container.ended or not follows:
                return response
            async with container.changed:
                await container.changed.wait_for(lambda: len(container.lines) > sent or container.ended)  # noqa: B023

    async def _exec(self, request: web.Request) -> web.WebSocketResponse:
        container = self._container(request)
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        if request.query.get("stdin") == "true":
            text = bytes((await socket.receive()).data)[1:].decode()
            assert "kill" in text, text
            container.signal(signal.SIGINT)
        else:
            words = [container.inside(word) for word in request.query.getall("command")]
            done = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
            output, _ = await done.communicate()
            await socket.send_bytes(bytes([STDOUT]) + output)
        await socket.send_bytes(bytes([STATUS]) + json.dumps(SUCCESS).encode())
        await socket.close()
        return socket


class PodsKubelet(Kubelet):
    """Runs all containers of a pod, and keeps their logs while the API server runs."""

    def __init__(self, api: PodsApi, folder: Path) -> None:
        super().__init__(api, folder, {})
        self.pods_api = api

    async def _execute(self, pod: Object) -> None:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        folder = self.folder / uid
        running: dict[str, PodContainer] = {}
        for container in pod["spec"]["containers"]:
            running[container["name"]] = started = await self._begin(pod, container, folder)
            self.pods_api.containers[name, container["name"]] = started
            self._processes[f"{uid}/{container['name']}"] = started.process
        self.started.append(name)
        states: dict[str, Object] = {one: {"running": {"startedAt": now()}} for one in running}
        self._show(pod, states, phase="Running")
        ending = asyncio.create_task(self._end_deleted(pod, running))
        await asyncio.gather(*(self._follow(pod, one, running[one], states) for one in running))
        ending.cancel()
        if self._newest(pod) is None:
            return
        codes = [states[one]["terminated"]["exitCode"] for one in running]
        self._show(pod, states, phase="Failed" if any(codes) else "Succeeded")
        if self._deletions[uid].is_set():
            self.store.remove("pods", pod)

    async def _begin(self, pod: Object, container: Object, folder: Path) -> PodContainer:
        paths = _folders(pod, container, folder)
        words = [*(container.get("command") or self.images[container["image"]]), *container.get("args", ())]
        process = await asyncio.create_subprocess_exec(
            *(inside(word, paths) for word in words),
            env={"PATH": os.environ["PATH"]} | {one["name"]: self._value(pod, one) for one in container.get("env", ())},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            cwd=folder,
        )
        return PodContainer(process, paths)

    async def _follow(self, pod: Object, name: str, container: PodContainer, states: dict[str, Object]) -> None:
        await container.read()
        del self._processes[f"{pod['metadata']['uid']}/{name}"]
        code = container.process.returncode or 0
        reason = "Error" if code else "Completed"
        ended = {"exitCode": code if code >= 0 else 128 - code, "startedAt": now(), "finishedAt": now()}
        states[name] = {"terminated": {**ended, "reason": reason}}
        if self._newest(pod) is not None:
            self._show(pod, states)

    async def _end_deleted(self, pod: Object, running: Mapping[str, PodContainer]) -> None:
        await self._deletions[pod["metadata"]["uid"]].wait()
        for container in running.values():
            container.signal(signal.SIGKILL)

    def _show(self, pod: Object, states: Mapping[str, Object], **fields: Any) -> None:
        statuses = [
            {
                "name": one["name"], "image": one["image"], "imageID": "", "ready": "running" in states[one["name"]],
                "restartCount": 0, "started": "running" in states[one["name"]], "state": states[one["name"]],
            }
            for one in pod["spec"]["containers"]
        ]  # fmt: skip
        self._status(pod, containerStatuses=statuses, **fields)
