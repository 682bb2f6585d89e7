"""An API server that speaks the Kubernetes protocol as far as our engine does, with faults on request. For tests.

List with pages and versions, watch with bookmarks, 410 and timeouts, deletion with grace and preconditions, quotas, 429
with Retry-After, errors as Status objects. Each object that it is sent is checked with Kubernetes' published schemas.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from tests.deploy.manifests import problems
from tests.engines.kubernetes_store import KINDS, Object, Refused, Store, now
from tests.ports import free_port

TOKEN = "sesame"
MERGE_PATCHES = {"application/merge-patch+json", "application/strategic-merge-patch+json"}  # the same but for lists


class KubernetesApi:
    """The server on a port of this machine. `seen` counts what was asked: (verb, resource)."""

    def __init__(self, *namespaces: str, bookmark_every: float = 0.5) -> None:
        self.store = Store(*(namespaces or ("default",)))
        self.bookmark_every = bookmark_every
        self.seen: Counter[tuple[str, str]] = Counter()
        self.bookmarks = 0  # sent
        self.refuses: Callable[[str, str], Refused | None] = lambda verb, resource: None
        self.retry_after: int | None = None  # seconds: while it is set, everything is answered with 429
        self.told_to_wait = 0
        self.on_delete: Callable[[Object], None] = lambda pod: self.store.remove("pods", pod)  # set by a kubelet
        self.token = TOKEN
        self.tls: ssl.SSLContext | None = None
        self.kinds = set(KINDS)  # that this server knows
        self._streams: dict[int, web.Request] = {}  # watches, by their identity
        self._runner: web.AppRunner | None = None
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = web.Application(middlewares=[self._guard])
        self.add_routes(app.router)
        one = "/api/v1/namespaces/{namespace}/{kind}/{name}"
        app.router.add_get("/api/v1/namespaces/{namespace}/{kind}", self._list)
        app.router.add_post("/api/v1/namespaces/{namespace}/{kind}", self._create)
        app.router.add_get(one, self._get)
        app.router.add_delete(one, self._delete)
        app.router.add_patch(one, self._patch)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True, ssl_context=self.tls).start()

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """For subclasses that know more requests."""

    async def stop(self) -> None:
        """Cut all connections; the objects stay."""
        runner, self._runner = self._runner, None
        if runner is not None:
            for request in list(self._streams.values()):
                if request.transport is not None:
                    request.transport.close()
            await runner.cleanup()

    def kubeconfig(self, folder: Path) -> Path:
        """A file with the way here."""
        file = folder / "kubeconfig"
        file.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1", "kind": "Config", "current-context": "test",
                    "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
                    "clusters": [{"name": "c", "cluster": {"server": self.url}}],
                    "users": [{"name": "u", "user": {"token": self.token}}],
                }
            )
        )  # fmt: skip
        return file

    # -- endpoints

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            if request.headers.get("Authorization") != f"Bearer {self.token}":
                raise Refused(401, "Unauthorized", "Unauthorized")
            if self.retry_after is not None:
                self.told_to_wait += 1
                raise Refused(429, "TooManyRequests", "the server is busy: ask again later")
            kind = request.match_info.get("kind")
            if kind not in self.kinds:
                raise Refused(404, "NotFound", "the server could not find the requested resource")
            verb = self._verb(request)
            self.seen[verb, kind] += 1
            if (refused := self.refuses(verb, kind)) is not None:
                raise refused
            response: web.StreamResponse = await handler(request)
            return response
        except Refused as refused:
            headers = {"Retry-After": str(self.retry_after or 1)} if refused.code == 429 else {}
            return web.json_response(refused.status(), status=refused.code, headers=headers)

    @staticmethod
    def _verb(request: web.Request) -> str:
        if request.method == "GET":
            if "name" in request.match_info:
                return "get"
            return "watch" if request.query.get("watch") in ("true", "1") else "list"
        return {"POST": "create", "DELETE": "delete", "PATCH": "patch"}[request.method]

    async def _create(self, request: web.Request) -> web.Response:
        given = await self._body(request)
        made = self.store.create(request.match_info["kind"], request.match_info["namespace"], given)
        return web.json_response(made, status=201)

    async def _get(self, request: web.Request) -> web.Response:
        found = request.match_info
        return web.json_response(self.store.get(found["kind"], found["namespace"], found["name"]))

    async def _delete(self, request: web.Request) -> web.Response:
        match = request.match_info
        found = self.store.get(match["kind"], match["namespace"], match["name"])
        options = await self._body(request) if request.can_read_body else {}
        uid = (options.get("preconditions") or {}).get("uid")
        if uid not in (None, found["metadata"]["uid"]):
            raise Refused(409, "Conflict", f"the UID in the precondition ({uid}) does not match")
        self.delete(match["kind"], found, grace=options.get("gracePeriodSeconds"))
        return web.json_response(found)

    async def _patch(self, request: web.Request) -> web.Response:
        match, patch = request.match_info, await self._body(request)
        if request.content_type not in MERGE_PATCHES:
            raise Refused(415, "UnsupportedMediaType", "this server only knows merge patches")
        found = self.store.get(match["kind"], match["namespace"], match["name"])
        for name in ("uid", "resourceVersion"):
            if (given := patch.get("metadata", {}).get(name)) not in (None, found["metadata"][name]):
                raise Refused(409, "Conflict", f"the {name} {given} is not that of the object")
        new = merge_patched(found, patch)
        if wrong := problems(new):
            raise Refused(422, "Invalid", "; ".join(wrong))
        if new["spec"] != found["spec"]:
            raise Refused(422, "Invalid", "spec: Forbidden: pod updates may not change fields")
        return web.json_response(self.store.update(match["kind"], found, lambda pod: pod.update(new)))

    def delete(self, kind: str, found: Object, *, grace: int | None = None) -> None:
        """Delete an object, a running pod gracefully."""
        if kind != "pods":
            self.store.remove(kind, found)
            return
        seconds = found["spec"]["terminationGracePeriodSeconds"] if grace is None else grace
        finished = found["status"]["phase"] in ("Succeeded", "Failed")
        if seconds == 0 or finished or "nodeName" not in found["spec"]:
            self.store.remove(kind, found)
        elif "deletionTimestamp" not in found["metadata"]:

            def mark(pod: Object) -> None:
                pod["metadata"] |= {"deletionTimestamp": now(), "deletionGracePeriodSeconds": seconds}

            if (marked := self.store.update(kind, found, mark)) is not None:
                self.on_delete(marked)
            return
        self.on_delete(found)

    async def _body(self, request: web.Request) -> Object:
        try:
            found: Object = json.loads(await request.read())
        except ValueError:
            raise Refused(400, "BadRequest", "the body is no JSON") from None
        return found

    async def _list(self, request: web.Request) -> web.StreamResponse:
        kind, namespace, query = request.match_info["kind"], request.match_info["namespace"], request.query
        if strange := set(query) - {
            "labelSelector", "limit", "continue", "watch", "allowWatchBookmarks", "resourceVersion", "timeoutSeconds",
        }:  # fmt: skip
            raise Refused(400, "BadRequest", f"unknown to this server: {sorted(strange)}")
        selects = _selector(query.get("labelSelector", ""))
        if query.get("watch") in ("true", "1"):
            return await self._watch(request, kind, namespace, selects)
        found = [one for one in self.store.all(kind, namespace) if selects(one)]
        version, after = self.store.version, ""
        if token := query.get("continue"):
            version, after = json.loads(base64.b64decode(token))
            if version < self.store.oldest:
                raise Refused(410, "Expired", "The provided continue parameter is too old")
            found = [one for one in found if one["metadata"]["name"] > after]
        metadata: Object = {"resourceVersion": str(version)}
        limit = int(query.get("limit") or 0)
        if limit and len(found) > limit:
            rest = [version, found[limit - 1]["metadata"]["name"]]
            metadata |= {
                "continue": base64.b64encode(json.dumps(rest).encode()).decode(),
                "remainingItemCount": len(found) - limit,
            }
            found = found[:limit]
        kinds = {"apiVersion": "v1", "kind": f"{KINDS[kind]}List", "metadata": metadata}
        return web.json_response({**kinds, "items": found})

    async def _watch(
        self, request: web.Request, kind: str, namespace: str, selects: Callable[[Object], bool]
    ) -> web.StreamResponse:
        version = int(request.query.get("resourceVersion") or self.store.version)
        seconds = float(request.query.get("timeoutSeconds") or 1800)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self._streams[id(request)] = request

        async def send(type_: str, found: Object) -> None:
            await response.write(json.dumps({"type": type_, "object": found}).encode() + b"\n")

        try:
            async with asyncio.timeout(seconds):
                while True:
                    changes = self.store.changes_since(version, kind, namespace)
                    for change in changes:
                        version = change.version
                        if selects(change.object):
                            await send(change.type, change.object)
                    version = max(version, self.store.version)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self.bookmark_every), self.store.changed:
                            await self.store.changed.wait_for(lambda: self.store.version > version)  # noqa: B023
                            continue
                    if request.query.get("allowWatchBookmarks") == "true":
                        self.bookmarks += 1
                        bookmark = {"resourceVersion": str(version)}
                        await send("BOOKMARK", {"apiVersion": "v1", "kind": KINDS[kind], "metadata": bookmark})
        except TimeoutError:
            pass  # as announced
        except Refused as refused:
            await send("ERROR", refused.status())
        except ConnectionError:
            pass  # the client has left
        finally:
            self._streams.pop(id(request), None)
        return response


def merge_patched(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merge_patched(found.get(key), value)
    return found


def _selector(text: str) -> Callable[[Object], bool]:
    terms = [term.partition("=") for term in text.split(",") if term]

    def selects(found: Object) -> bool:
        labels = found["metadata"].get("labels") or {}
        return all(key in labels and (not equals or labels[key] == value) for key, equals, value in terms)

    return selects
