"""Requests to the Kubernetes API: who we are, how fast we may ask, and what an answer means. Objects are plain dicts.

kubernetes_asyncio has the configuration, the authentication and the HTTP connections; its models are not used.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiosched.errors import ConfigError
from aiosched.executors.engines.engine import EngineUnavailable

if TYPE_CHECKING:
    from aiosched.config.sections import KubernetesSettings

logger = logging.getLogger(__name__)

Manifest = dict[str, Any]

_CONTENT: Final = {"PATCH": "application/merge-patch+json"}
_TIMEOUT: Final = 30.0  # seconds for an answer
_BURST: Final = 1.0  # seconds of the rate that may be used at once
_LONGEST_PAUSE: Final = 60.0  # seconds for which a Retry-After is believed
_TOLD_TO_WAIT: Final = 5  # answers 429 to one request before it is given up for now
_IN_POD: Final = "KUBERNETES_SERVICE_HOST"  # a variable of every pod
OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class KubeError(Exception):
    """An answer that is an error: its HTTP status, Kubernetes' word for it, and its message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message or reason or f"status {status}")
        self.status, self.reason = status, reason


class KubeApi:
    """One connection pool to an API server, with our identity. Create it by `connect`."""

    def __init__(self, client: Any, reload: Any, *, namespace: str, rate: float) -> None:
        self._client, self._reload = client, reload
        self.namespace = namespace  # where we are, as far as the configuration says
        self._interval, self._next = 1 / rate, 0.0

    @classmethod
    async def connect(cls, options: KubernetesSettings) -> KubeApi:
        """Read the configuration: of the settings, of this pod, or the default kubeconfig. Raises ConfigError."""
        client: Any = await asyncio.to_thread(importlib.import_module, "kubernetes_asyncio.client")  # takes a while
        config: Any = importlib.import_module("kubernetes_asyncio.config")

        found = client.Configuration()
        where = options.kubeconfig or "the default kubeconfig"
        namespace = "default"

        async def from_file() -> Any:
            file = str(options.kubeconfig) if options.kubeconfig is not None else None
            return await config.load_kube_config(file, options.context, found, persist_config=False)

        async def from_pod() -> None:
            config.load_incluster_config(client_configuration=found)

        in_pod = options.kubeconfig is None and options.context is None and _IN_POD in os.environ
        load = from_pod if in_pod else from_file
        try:
            loaded: Any = await load()
        except (config.ConfigException, OSError, ValueError, TypeError, KeyError) as error:
            where = "the service account of this pod" if in_pod else where
            raise ConfigError(
                f"The executor 'kubernetes' cannot read {where}: {error}. Set kubernetes.kubeconfig and "
                "kubernetes.context, or run where there is a service account."
            ) from error
        if in_pod and OWN_NAMESPACE.exists():
            namespace = OWN_NAMESPACE.read_text(encoding="utf-8").strip()
        elif not in_pod:
            namespace = loaded.current_context["context"].get("namespace") or namespace
        made: Any = client.ApiClient(found)
        made.user_agent = "aiosched"
        return cls(made, load, namespace=namespace, rate=options.requests_per_second)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def create(self, namespace: str, kind: str, manifest: Manifest) -> Manifest:
        """Create an object of a kind (`pods`, `secrets`); returns it as it was stored. Raises KubeError."""
        return await self.request("POST", f"/api/v1/namespaces/{namespace}/{kind}", body=manifest)

    async def get(self, namespace: str, kind: str, name: str) -> Manifest:
        """One object. Raises KubeError, with status 404 if there is none."""
        return await self.request("GET", f"/api/v1/namespaces/{namespace}/{kind}/{name}")

    async def delete_pod(self, namespace: str, name: str, *, uid: str, grace: int | None = None) -> None:
        """Delete this pod, with `grace` seconds for it; None: as many as it says. One that is gone is not an error."""
        options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            await self.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", body=options)
        except KubeError as error:
            if error.status not in (404, 409):  # 409: another pod of that name
                raise

    async def patch_pod(self, namespace: str, name: str, patch: Manifest) -> Manifest:
        """Change a pod by a merge patch; returns it as it was stored. Raises KubeError."""
        return await self.request("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}", body=patch)

    async def list_pods(self, namespace: str, selector: str, *, page: int = 500) -> tuple[list[Manifest], str]:
        """All pods with these labels, and the version of the list. Raises KubeError."""
        found: list[Manifest] = []
        query = {"labelSelector": selector, "limit": str(page)}
        while True:
            answer = await self.request("GET", f"/api/v1/namespaces/{namespace}/pods", query=query)
            found += answer.get("items") or ()
            version, rest = answer["metadata"]["resourceVersion"], answer["metadata"].get("continue")
            if not rest:
                return found, version
            query = {**query, "continue": rest}

    async def watch_pods(
        self, namespace: str, selector: str, *, version: str, seconds: int, opened: Callable[[], None]
    ) -> AsyncIterator[tuple[str, Manifest]]:
        """Changes of these pods after `version`, as (type, object), for about so many seconds.

        `opened` is called when the server has accepted. Raises EngineUnavailable, and KubeError, with status 410 if
        the changes since `version` are no longer known.
        """
        query = {
            "labelSelector": selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        path = f"/api/v1/namespaces/{namespace}/pods"
        response = await self._respond("GET", path, query=query, body=None, timeout=(_TIMEOUT, seconds + _TIMEOUT))
        try:
            if response.status != 200:
                raise self._refusal(response, await response.read())
            opened()
            async for line in response.content:
                if line.strip():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise _error(event["object"])
                    yield event["type"], event["object"]
        except (OSError, TimeoutError, ValueError, self._client_error()) as error:
            raise EngineUnavailable(f"the watch of pods broke off: {_said(error)}") from error
        finally:
            response.close()

    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Manifest | None = None
    ) -> Manifest:
        """One request, repeated while the server says that we ask too much. Raises KubeError, EngineUnavailable."""
        is_reloaded, told_to_wait = False, 0
        while True:
            response = await self._respond(method, path, query=query, body=body, timeout=_TIMEOUT)
            try:
                async with asyncio.timeout(_TIMEOUT):
                    content = await response.read()
            except (OSError, TimeoutError, self._client_error()) as error:
                raise EngineUnavailable(f"the Kubernetes API broke off: {_said(error)}") from error
            finally:
                response.release()
            if response.status < 300:
                return dict(json.loads(content))
            if response.status == 401 and not is_reloaded:  # a token that was replaced meanwhile
                is_reloaded = True
                await self._reload()
                continue
            refusal = self._refusal(response, content)
            if response.status == 429:
                told_to_wait += 1
                if told_to_wait < _TOLD_TO_WAIT:
                    continue
            raise refusal

    def _refusal(self, response: Any, content: bytes) -> Exception:
        """What an answer means that is an error. Notes until when the server wants to hear nothing."""
        error = _error_of(response.status, content)
        if response.status == 429:
            self._wait(response.headers.get("Retry-After"))
        if response.status == 429 or response.status >= 500:
            return EngineUnavailable(f"the Kubernetes API answers {response.status}: {error}")
        return error

    def _wait(self, seconds: str | None) -> None:
        pause = float(seconds) if seconds is not None and seconds.isdecimal() else 1.0
        self._next = max(self._next, time.monotonic() + min(pause, _LONGEST_PAUSE))

    async def _pace(self) -> None:
        """Wait for our turn: at most the rate of the settings, and not while the server has told us to wait."""
        now = time.monotonic()
        turn = max(self._next, now - _BURST)
        self._next = turn + self._interval
        if turn > now:
            await asyncio.sleep(turn - now)

    async def _respond(
        self, method: str, path: str, *, query: Mapping[str, str] | None, body: Manifest | None, timeout: Any
    ) -> Any:
        await self._pace()
        try:
            return await self._client.call_api(
                path,
                method,
                query_params=list((query or {}).items()),
                header_params={"Accept": "application/json", "Content-Type": _CONTENT.get(method, "application/json")},
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=timeout,
            )
        except (OSError, TimeoutError, self._client_error()) as error:
            where = self._client.configuration.host
            raise EngineUnavailable(f"the Kubernetes API at {where} cannot be reached: {_said(error)}") from error

    @staticmethod
    def _client_error() -> type[Exception]:
        from aiohttp import ClientError

        return ClientError


def _error_of(status: int, content: bytes) -> KubeError:
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if isinstance(found, dict) and found.get("kind") == "Status":
        return _error({"code": status, **found})
    return KubeError(status, "", content[:500].decode(errors="replace"))


def _error(status: Manifest) -> KubeError:
    return KubeError(int(status.get("code") or 0), status.get("reason") or "", status.get("message") or "")


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
