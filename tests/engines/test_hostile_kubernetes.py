"""An API server of Kubernetes that sends anything: no answer is without an end, and no odd object ends the watch."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kubernetes_asyncio", reason="not installed: pip install kubernetes_asyncio")

from aiohttp import web

from aiosched.config import Settings
from aiosched.core.values.worker_messages import Job
from aiosched.executors.engines.engine import EngineUnavailable
from aiosched.executors.kubernetes import kube_api, watching
from aiosched.executors.kubernetes.engine import KubernetesEngine
from aiosched.executors.kubernetes.held_pods import HeldPods
from aiosched.executors.kubernetes.kube_api import KubeApi, KubeError
from aiosched.executors.kubernetes.manifests import PodOptions, PodRefused, idle_pod, job_of, pod_of, secret_of
from aiosched.executors.kubernetes.warm_pods import WarmPods
from aiosched.executors.kubernetes.watching import PodWatch
from tests.engines.kubelet import Kubelet
from tests.engines.kubernetes_api import KubernetesApi
from tests.engines.kubernetes_cluster import LOST, OneTask
from tests.engines.test_engine_attempts import TRIES, rows, serving, until
from tests.patience import PATIENCE

OPTIONS = PodOptions("aiosched", "default", image="aiosched")
JOB = Job(id=7, token="secret-token", urls=("http://127.0.0.1:1",), title="d.t r")

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HostileApi(KubernetesApi):
    """Answers a verb for pods or secrets as it likes; all else as it should be."""

    def __init__(self) -> None:
        super().__init__("default")
        self.answers: dict[str, Answer] = {}  # by verb and kind

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        verb = f"{self._verb(request)} {request.match_info.get('kind')}"
        self.seen["asked", verb] += 1
        answer = self.answers.get(verb)
        return await (super()._guard(request, handler) if answer is None else answer(request))


@pytest.fixture
async def hostile() -> AsyncIterator[HostileApi]:
    found = HostileApi()
    await found.start()
    yield found
    await found.stop()


@pytest.fixture
async def connection(settings: Settings, hostile: HostileApi, tmp_path: Path) -> AsyncIterator[KubeApi]:
    settings.kubernetes.kubeconfig, settings.kubernetes.requests_per_second = hostile.kubeconfig(tmp_path), 1000.0
    found = await KubeApi.connect(settings.kubernetes)
    yield found
    await found.close()


def pod(name: str = "good", **parts: Any) -> Any:
    metadata = {"name": name, "namespace": "default", "uid": f"u-{name}", "resourceVersion": "7"}
    metadata["labels"] = {"aiosched.io/job": "7"}
    return {"metadata": metadata | parts.pop("metadata", {}), "spec": {}, "status": {"phase": "Running"}, **parts}


def said(body: Any, status: int = 200, **headers: str) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(body=text, status=status, headers=headers)

    return answer


def for_ever(part: bytes, *, first: bytes = b"", pause: float = 0.0) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await response.write(first)
            while True:
                await response.write(part)
                await asyncio.sleep(pause)
        return response

    return answer


ODD: dict[str, Any] = {
    "nothing": {},
    "text": "pod",
    "null": None,
    "no metadata": {"status": {}},
    "metadata is a list": {"metadata": []},
    "no uid": {"metadata": {"name": "odd", "namespace": "default", "resourceVersion": "1"}},
    "a name that is a number": pod("odd", metadata={"name": 5}),
    "no version": pod("odd", metadata={"resourceVersion": None}),
    "labels are a list": pod("odd", metadata={"labels": ["a"]}),
    "a label is a number": pod("odd", metadata={"labels": {"aiosched.io/job": 7}}),
    "status is a text": pod("odd", status="Failed"),
    "phase is an object": pod("odd", status={"phase": {}}),
    "conditions are an object": pod("odd", status={"conditions": {"type": "Ready"}}),
    "a condition is a text": pod("odd", status={"conditions": ["DisruptionTarget"]}),
    "statuses without names": pod("odd", status={"containerStatuses": [{"state": {}}]}),
    "state is a text": pod("odd", status={"containerStatuses": [{"name": "base", "state": "terminated"}]}),
    "exit code is a text": pod(
        "odd", status={"containerStatuses": [{"name": "base", "state": {"terminated": {"exitCode": "1"}}}]}
    ),
    "a message is an object": pod("odd", status={"phase": "Failed", "reason": "Evicted", "message": {"a": 1}}),
    "containers are a text": pod("odd", spec={"containers": "base"}),
    "limits are a list": pod("odd", spec={"containers": [{"name": "base", "resources": {"limits": [1]}}]}),
    "volumes without names": pod("odd", spec={"volumes": [{}]}),
    "another namespace": pod("odd", metadata={"namespace": "others"}),
}


class Heard:
    """Implements PodListener."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.breaks = 0

    def listed(self, namespace: str, pods: list[Any]) -> None:
        self.names += ["list", *(one["metadata"]["name"] for one in pods)]

    def changed(self, pod: Any) -> None:
        self.names.append(pod["metadata"]["name"])
        if self.breaks:
            self.breaks -= 1
            raise KeyError("nobody has foreseen this")

    deleted = changed


@contextlib.asynccontextmanager
async def watching_pods(connection: KubeApi, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Heard]:
    monkeypatch.setattr(watching, "FIRST_PAUSE", 0.01)
    heard = Heard()
    watch = PodWatch(connection, "default", "a", [heard])
    task = asyncio.create_task(watch.run())
    yield heard
    assert not task.done(), "the watch has ended"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# ---- size and time


@pytest.mark.parametrize("verb", ["list pods", "get pods", "create secrets"])
async def test_an_answer_without_an_end_is_left(
    connection: KubeApi, hostile: HostileApi, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_api, "_MOST_BYTES", 2**20)
    hostile.answers[verb] = for_ever(b" " * 2**16, first=b'{"metadata": ')
    with pytest.raises(EngineUnavailable, match="more than 1,048,576 bytes"):
        await ask(connection, verb)


@pytest.mark.parametrize("verb", ["list pods", "patch pods"])
async def test_an_answer_that_comes_byte_by_byte_is_left(
    connection: KubeApi, hostile: HostileApi, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_api, "_TIMEOUT", 0.3)
    hostile.answers[verb] = for_ever(b" ", pause=0.02)
    with pytest.raises(EngineUnavailable, match="TimeoutError"):
        await ask(connection, verb)


async def test_a_list_without_an_end_is_left(connection: KubeApi, hostile: HostileApi) -> None:
    page = {"metadata": {"resourceVersion": "1", "continue": "more"}, "items": []}
    hostile.answers["list pods"] = said(page)
    with pytest.raises(EngineUnavailable, match="has no end"):
        await connection.list_pods("default", "a")


@pytest.mark.parametrize("name", ["a line without an end", "bytes that trickle", "an endless refusal"])
async def test_a_watch_without_an_end_is_begun_again(
    connection: KubeApi, hostile: HostileApi, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, value in (("_MOST_IN_LINE", 2**20), ("_MOST_BYTES", 2**20), ("_TIMEOUT", 0.5)):
        monkeypatch.setattr(kube_api, limit, value)
    monkeypatch.setattr(watching, "_seconds", lambda: 0)
    endless = for_ever(b"x" * 2**16)
    refusal = said(b"x" * 2**21, status=500)
    hostile.answers["watch pods"] = {
        "a line without an end": endless, "bytes that trickle": for_ever(b"\n", pause=0.02),
        "an endless refusal": refusal,
    }[name]  # fmt: skip
    async with watching_pods(connection, monkeypatch):
        await until(lambda: hostile.seen["asked", "list pods"] >= 2, "a second list")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(connection: KubeApi, hostile: HostileApi, status: int) -> None:
    other = HostileApi()
    await other.start()
    try:
        for verb in ("list pods", "create secrets"):
            kind = verb.split()[1]
            to = f"{other.url}/api/v1/namespaces/default/{kind}"
            hostile.answers[verb] = said({}, status, Location=to)
            with pytest.raises(EngineUnavailable, match=f"answers {status}, a redirect, which is not followed"):
                await ask(connection, verb)
        assert not other.seen
    finally:
        await other.stop()


async def ask(connection: KubeApi, verb: str) -> Any:
    match verb:
        case "list pods":
            return await connection.list_pods("default", "a")
        case "get pods":
            return await connection.get("default", "pods", "p")
        case "create pods":
            return await connection.create("default", "pods", pod_of(JOB, OPTIONS, salt="x"))
        case "create secrets":
            return await connection.create("default", "secrets", {"stringData": {"token": "secret-token"}})
        case "patch pods":
            return await connection.patch_pod("default", "p", {})
        case _:
            return await connection.delete_pod("default", "p", uid="u")


# ---- shapes


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_object_is_named_once_and_the_others_are_seen(
    connection: KubeApi,
    hostile: HostileApi,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    page = {"metadata": {"resourceVersion": "1"}, "items": [ODD[name], pod("a"), ODD[name]]}
    hostile.answers["list pods"] = said(page)
    events = [{"type": kind, "object": ODD[name]} for kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ODD")]
    lines = [*map(json.dumps, events), "no JSON", "[" * 100_000, "5", json.dumps({"type": 5, "object": pod()})]
    after = json.dumps({"type": "MODIFIED", "object": pod("b")})
    text = "\n".join([*lines, after, ""]).encode()
    hostile.answers["watch pods"] = for_ever(b"\n", first=text, pause=0.1)
    async with watching_pods(connection, monkeypatch) as heard:
        await until(lambda: "b" in heard.names, "what comes after it")
        assert heard.names == ["list", "a", "b"]
        assert hostile.seen["asked", "watch pods"] == 1
    warned = [text for text in caplog.messages if "left alone in namespace default: the " in text]
    assert len(warned) == 1, warned
    assert "odd" in warned[0] or "without a name" in warned[0]


@pytest.mark.parametrize(
    "verb", ["list pods", "get pods", "create pods", "create secrets", "patch pods", "delete pods"]
)
@pytest.mark.parametrize("body", [b"", b"no", b"[]", b"null", b'"x"', b"[" * 100_000, b"\xff"])
async def test_an_answer_that_is_no_object_is_an_engine_that_cannot_be_used(
    connection: KubeApi, hostile: HostileApi, verb: str, body: bytes
) -> None:
    hostile.answers[verb] = said(body)
    with pytest.raises(EngineUnavailable, match="answers oddly"):
        await ask(connection, verb)


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_pod_is_no_answer_to_a_request_for_one(
    connection: KubeApi, hostile: HostileApi, name: str
) -> None:
    for verb in ("get pods", "create pods", "patch pods"):
        hostile.answers[verb] = said(ODD[name])
        with pytest.raises(EngineUnavailable, match="answers oddly"):
            await ask(connection, verb)


ERRORS: list[Any] = [
    {"kind": "Status", "code": "many", "reason": 5},
    {"kind": "Status", "message": {"a": "b"}},
    {"kind": "Status", "message": "x" * 100_000},
    {"kind": ["Status"]},
    [1],
]


@pytest.mark.parametrize("body", ERRORS, ids=["a code", "a message", "a long message", "a kind", "a list"])
async def test_an_error_may_be_odd_too(
    connection: KubeApi, hostile: HostileApi, body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile.answers["get pods"] = said(body, 403)
    with pytest.raises(KubeError) as caught:
        await ask(connection, "get pods")
    assert caught.value.status == 403
    assert len(str(caught.value)) <= 4_000
    line = json.dumps({"type": "ERROR", "object": body}).encode() + b"\n"
    hostile.answers["watch pods"] = for_ever(b"", first=line, pause=0.1)
    async with watching_pods(connection, monkeypatch):
        if isinstance(body, dict):
            await until(lambda: hostile.seen["asked", "list pods"] >= 2, "a second list")


async def test_what_a_listener_has_not_foreseen_does_not_end_the_watch(
    connection: KubeApi, hostile: HostileApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hostile.answers["list pods"] = said({"metadata": {"resourceVersion": "1"}})
    text = json.dumps({"type": "ADDED", "object": pod("a")}).encode() + b"\n"
    hostile.answers["watch pods"] = for_ever(b"", first=text, pause=0.1)
    async with watching_pods(connection, monkeypatch) as heard:
        heard.breaks = 2
        await until(lambda: heard.names.count("a") == 3, "the third time")
    assert [text for text in caplog.messages if "are listed again" in text]


@pytest.mark.parametrize("label", ["9" * 30, "٧", "-7", "7.0", "", "idle", "0x7"])
def test_a_label_that_is_no_number_of_a_row_is_no_job(label: str) -> None:
    assert job_of(pod(metadata={"labels": {"aiosched.io/job": label}})) is None


@pytest.mark.parametrize("missing", ["labels", "volumes", "spec"])
async def test_a_pod_without_what_it_was_made_with_gets_no_secret(
    connection: KubeApi, hostile: HostileApi, missing: str
) -> None:
    found = idle_pod(OPTIONS, salt="x") | {"status": {"phase": "Running"}}
    found["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    if missing == "labels":
        del found["metadata"]["labels"]["app.kubernetes.io/managed-by"]
    elif missing == "volumes":
        del found["spec"]["volumes"]
    else:
        found["spec"] = None
    with pytest.raises(PodRefused, match="something in the cluster removes them"):
        secret_of(JOB, found)
    warm = WarmPods(connection, OPTIONS, 1)
    warm.listed("default", [found])
    assert await warm.give(JOB) is None
    assert not hostile.seen["create", "secrets"]


# ---- lies


def ended_pod(uid: str) -> Any:
    ends = [{"name": "base", "state": {"terminated": {"exitCode": 1}}}]
    return pod("good", metadata={"uid": uid}, status={"phase": "Failed", "containerStatuses": ends})


@pytest.mark.parametrize("end", ["changed", "deleted", "after another"])
def test_of_two_pods_of_a_job_no_end_is_certain(settings: Settings, end: str) -> None:
    told: list[bool] = []
    held = HeldPods(None, settings.kubernetes, lambda job, reason, *, certain=True: told.append(certain))  # type: ignore[arg-type]
    held.changed(pod(metadata={"uid": "1"}))
    held.changed(pod(metadata={"uid": "2"}))
    if end == "after another":
        held.changed(ended_pod("1"))
    else:
        getattr(held, end)(ended_pod("2"))
    assert told == [False]


def test_the_end_of_the_only_pod_is_certain(settings: Settings) -> None:
    told: list[bool] = []
    held = HeldPods(None, settings.kubernetes, lambda job, reason, *, certain=True: told.append(certain))  # type: ignore[arg-type]
    held.changed(pod(metadata={"uid": "1"}))
    held.changed(ended_pod("1"))
    held.changed(pod(metadata={"uid": "2"}))  # the next pod of the job, after the first one's end
    held.changed(ended_pod("2"))
    assert told == [True, True]


@pytest.mark.slow
async def test_a_pod_that_is_said_to_have_failed_while_its_task_runs_is_lost_once(
    settings: Settings, node: Kubelet, one: OneTask
) -> None:
    """The first worker's token counts no more: what it reports changes nothing."""
    settings.kubernetes.delete_pods = "never"
    async with serving(settings, KubernetesEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: one.notes() == ["begins"], "the task")
        ends = [{"name": "base", "state": {"terminated": {"exitCode": 1}}}]
        node.store.update("pods", node.pod(), lambda pod: pod["status"].update(containerStatuses=ends))
        await until(lambda: one.notes() == ["begins"] * 2, "the second try")
        one.go()
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 2, 0)]
        ((reason,),) = await rows(scheduler, LOST)
    assert "ended with exit code 1" in reason
