"""What a Kubernetes API server stores: objects with versions, and the changes since some version. For tests."""

from __future__ import annotations

import asyncio
import base64
import copy
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import uuid4

from tests.deploy.manifests import problems

Object = dict[str, Any]
KINDS = {"pods": "Pod", "secrets": "Secret"}
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class Refused(Exception):
    """An answer with a Status object."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason

    def status(self) -> Object:
        return {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": str(self), "reason": self.reason, "code": self.code,
        }  # fmt: skip


class Change(NamedTuple):
    """One change; `version` is that of the object after it."""

    version: int
    type: str
    kind: str
    object: Object


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Store:
    """Objects by kind (`pods`, `secrets`), namespace and name. They are never changed in place."""

    def __init__(self, *namespaces: str) -> None:
        self.namespaces = set(namespaces)
        self.version = 100
        self.oldest = 100  # changes up to this version are forgotten
        self.changes: list[Change] = []
        self.changed = asyncio.Condition()
        self.quotas: dict[str, int] = {}  # by namespace: unfinished pods
        self._objects: dict[tuple[str, str, str], Object] = {}

    def all(self, kind: str, namespace: str) -> list[Object]:
        return [found for (a, b, _), found in sorted(self._objects.items()) if (a, b) == (kind, namespace)]

    def find(self, kind: str, namespace: str, name: str) -> Object | None:
        return self._objects.get((kind, namespace, name))

    def get(self, kind: str, namespace: str, name: str) -> Object:
        found = self.find(kind, namespace, name)
        if found is None:
            raise Refused(404, "NotFound", f'{kind} "{name}" not found')
        return found

    def create(self, kind: str, namespace: str, given: Object) -> Object:
        """Store a new object as an API server does: checked, with defaults and an identity."""
        metadata = given.get("metadata") or {}
        name = metadata.get("name") or ""
        if (given.get("apiVersion"), given.get("kind")) != ("v1", KINDS[kind]):
            raise Refused(400, "BadRequest", f"this is no v1 {KINDS[kind]}")
        if metadata.get("namespace", namespace) != namespace:
            raise Refused(400, "BadRequest", "the namespace of the object does not match that of the request")
        if namespace not in self.namespaces:
            raise Refused(404, "NotFound", f'namespaces "{namespace}" not found')
        if wrong := [*problems(given), *self._more_problems(kind, given)]:
            raise Refused(422, "Invalid", f'{KINDS[kind]} "{name}" is invalid: {"; ".join(wrong)}')
        if (kind, namespace, name) in self._objects:
            raise Refused(409, "AlreadyExists", f'{kind} "{name}" already exists')
        if kind == "pods":
            self._check_quota(namespace, name)
        made = copy.deepcopy(given)
        made["metadata"] |= {"namespace": namespace, "uid": str(uuid4()), "creationTimestamp": now()}
        if kind == "pods":
            spec = made["spec"]
            spec.setdefault("terminationGracePeriodSeconds", 30)
            spec.setdefault("schedulerName", "default-scheduler")
            made["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
        elif text := made.pop("stringData", None):
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
            made["data"] = {**made.get("data", {}), **encoded}
        return self._store("ADDED", kind, made)

    def _more_problems(self, kind: str, given: Object) -> Iterator[str]:
        """What an API server refuses and the schemas do not say."""
        if not NAME.fullmatch(given["metadata"].get("name") or ""):
            yield "metadata.name: a lowercase RFC 1123 subdomain"
        for key, value in (given["metadata"].get("labels") or {}).items():
            if not re.fullmatch(r"(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?", value):
                yield f"metadata.labels: {key}: {value!r} is no label value"
        if kind == "secrets":
            for owner in given["metadata"].get("ownerReferences") or ():
                owned = self.find("pods", given["metadata"]["namespace"], owner["name"])
                if owned is not None and owned["metadata"]["uid"] != owner["uid"]:
                    yield "an owner with another uid: the object would be collected at once"
            return
        spec = given["spec"]
        names = [one["name"] for one in spec["containers"]]
        if len(set(names)) < len(names):
            yield "spec.containers: Duplicate value"
        volumes = {one["name"] for one in spec.get("volumes") or ()}
        for container in (*spec["containers"], *(spec.get("initContainers") or ())):
            if not container.get("image"):
                yield f"spec.containers: {container['name']}: image: Required value"
            for mount in container.get("volumeMounts") or ():
                if mount["name"] not in volumes:
                    yield f"volumeMounts: {mount['name']}: Not found"

    def _check_quota(self, namespace: str, name: str) -> None:
        limit = self.quotas.get(namespace)
        used = sum(one["status"]["phase"] not in ("Succeeded", "Failed") for one in self.all("pods", namespace))
        if limit is not None and used >= limit:
            raise Refused(
                403, "Forbidden",
                f'pods "{name}" is forbidden: exceeded quota: few, requested: pods=1, used: pods={used}, '
                f"limited: pods={limit}",
            )  # fmt: skip

    def update(self, kind: str, found: Object, change: Callable[[Object], None]) -> Object | None:
        """Change the newest state of an object; None if it is gone."""
        metadata = found["metadata"]
        known = self.find(kind, metadata["namespace"], metadata["name"])
        if known is None or known["metadata"]["uid"] != metadata["uid"]:
            return None
        new = copy.deepcopy(known)
        change(new)
        return self._store("MODIFIED", kind, new)

    def remove(self, kind: str, found: Object) -> None:
        """Remove an object, and what it owns."""
        metadata = found["metadata"]
        known = self._objects.pop((kind, metadata["namespace"], metadata["name"]), None)
        if known is None:
            return
        self._note("DELETED", kind, copy.deepcopy(known))
        for owned in self.all("secrets", metadata["namespace"]):
            owners = owned["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == metadata["uid"] for owner in owners):
                self.remove("secrets", owned)

    def compact(self) -> None:
        """Forget all changes until now: watches and lists that go on from an older version get 410."""
        self.changes.clear()
        self.oldest = self.version

    def changes_since(self, version: int, kind: str, namespace: str) -> list[Change]:
        if version < self.oldest:
            raise Refused(410, "Expired", f"too old resource version: {version} ({self.oldest})")
        first = len(self.changes)
        while first and self.changes[first - 1].version > version:
            first -= 1
        return [
            change for change in self.changes[first:]
            if change.kind == kind and change.object["metadata"]["namespace"] == namespace
        ]  # fmt: skip

    def _store(self, type_: str, kind: str, new: Object) -> Object:
        self._note(type_, kind, new)
        self._objects[kind, new["metadata"]["namespace"], new["metadata"]["name"]] = new
        return new

    def _note(self, type_: str, kind: str, found: Object) -> None:
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        self.changes.append(Change(self.version, type_, kind, found))
        asyncio.get_running_loop().create_task(self._notify())

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()
