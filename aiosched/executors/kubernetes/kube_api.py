"""Requests to the Kubernetes API: who we are, how fast we may ask, and what an answer means. Objects are plain dicts.

kubernetes_asyncio has the configuration, the authentication and the HTTP connections; its models are not used. What a
server sends is bounded in bytes and seconds and its shape is checked; redirects are not followed.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiosched.errors import ConfigError
from aiosched.executors.engines.engine import EngineUnavailable
from aiosched.executors.kubernetes.answers import (
    OddAnswer,
    StatusObject,
    checked_pod,
    event_of,
    page_of,
    read_json,
    status_of,
    version_of,
)  # fmt: skip

if TYPE_CHECKING:
    from aiosched.config.sections import KubernetesSettings

logger: logging.Logger = logging.getLogger(__name__)

Manifest = dict[str, Any]

_CONTENT: Final = {"PATCH": "application/merge-patch+json"}
_TIMEOUT: Final = 30.0  # seconds for an answer
_MOST_BYTES: Final = 2**26  # of an answer: a page of 500 pods has some ten million
_MOST_IN_LINE: Final = 2**22  # bytes of a line of a watch: Kubernetes stores objects of up to a million and a half
_MOST_PODS: Final = 100_000  # of one list
_PART: Final = 2**16  # bytes that are read at once
_MOST_MESSAGE: Final = 4_000  # characters of what an error says
_MOST_NAMED: Final = 1_000  # odd objects that are remembered, so that each is named once
_BURST: Final = 1.0  # seconds of the rate that may be used at once
_LONGEST_PAUSE: Final = 60.0  # seconds for which a Retry-After is believed
_TOLD_TO_WAIT: Final = 5  # answers 429 to one request before it is given up for now
_IN_POD: Final = "KUBERNETES_SERVICE_HOST"  # a variable of every pod
OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class KubeError(Exception):
    """An answer that is an error: its HTTP status, Kubernetes' word for it, and its message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message or reason or f"status {status}")
        self.status: int = status
        self.reason: str = reason


class PodChange(NamedTuple):
    """What a watch says: the version from which a later one may go on, and the pod, None if there is only that."""

    kind: str  # ADDED, MODIFIED, DELETED, BOOKMARK
    version: str
    pod: Manifest | None


class KubeApi:
    """One connection pool to an API server, with our identity. Create it by `connect`."""

    def __init__(self, client: Any, reload: Any, *, namespace: str, rate: float) -> None:
        self._client, self._reload = client, reload
        self.namespace = namespace  # where we are, as far as the configuration says
        self._interval, self._next = 1 / rate, 0.0
        self._named: dict[str, None] = {}  # what was said of odd objects, in that order

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
        made.rest_client.pool_manager = _OnlyThere(made.rest_client.pool_manager)
        return cls(made, load, namespace=namespace, rate=options.requests_per_second)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def create(self, namespace: str, kind: str, manifest: Manifest) -> Manifest:
        """Create an object of a kind (`pods`, `secrets`); returns it as it was stored. Raises KubeError."""
        return self._checked(
            await self.request("POST", f"/api/v1/namespaces/{namespace}/{kind}", body=manifest), kind, namespace
        )

    async def get(self, namespace: str, kind: str, name: str) -> Manifest:
        """One object. Raises KubeError, with status 404 if there is none."""
        return self._checked(
            await self.request("GET", f"/api/v1/namespaces/{namespace}/{kind}/{name}"), kind, namespace
        )

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
        found = await self.request("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}", body=patch)
        return self._checked(found, "pods", namespace)

    async def list_pods(self, namespace: str, selector: str, *, page: int = 500) -> tuple[list[Manifest], str]:
        """All pods with these labels, and the version of the list. Odd objects are left out. Raises KubeError."""
        found: list[Manifest] = []
        query = {"labelSelector": selector, "limit": str(page)}
        while True:
            content = await self._ask("GET", f"/api/v1/namespaces/{namespace}/pods", query=query)
            try:
                answer = page_of(content)
            except OddAnswer as error:
                raise self._odd(error) from None
            pods = (self._pod_or_none(item, namespace) for item in answer.items or ())
            found += [pod for pod in pods if pod is not None]
            if not answer.metadata.continue_:
                return found, answer.metadata.resourceVersion
            if not answer.items or len(found) > _MOST_PODS:
                raise EngineUnavailable(f"the list of pods has no end, or more than {_MOST_PODS:,} pods")
            query = {**query, "continue": answer.metadata.continue_}

    async def watch_pods(
        self, namespace: str, selector: str, *, version: str, seconds: int, opened: Callable[[], None]
    ) -> AsyncIterator[PodChange]:
        """Changes of these pods after `version`, for about so many seconds. Odd objects are left out.

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
        ends_at = asyncio.get_running_loop().time() + seconds + _TIMEOUT
        try:
            if response.status != 200:
                async with asyncio.timeout(_TIMEOUT):
                    raise self._refusal(response, await _content(response))
            opened()
            async for line in _lines(response, ends_at):
                try:
                    event = event_of(line)
                except OddAnswer as error:
                    self._name(namespace, error)
                    continue
                if event.type == "ERROR":
                    raise _error(status_of(event.object))
                version = version_of(event.object) or version
                is_pod = event.type in ("ADDED", "MODIFIED", "DELETED")
                yield PodChange(event.type, version, self._pod_or_none(event.object, namespace) if is_pod else None)
        except (OSError, TimeoutError, ValueError, self._client_error()) as error:
            raise EngineUnavailable(f"the watch of pods broke off: {_said(error)}") from error
        finally:
            response.close()

    def _pod_or_none(self, found: Any, namespace: str) -> Manifest | None:
        """A pod of this namespace; None for an odd object, which is named once."""
        try:
            return checked_pod(found, namespace)
        except OddAnswer as error:
            self._name(namespace, error)
            return None

    def _name(self, namespace: str, error: OddAnswer) -> None:
        """Say once what is odd."""
        said = f"in namespace {namespace}: {error}"
        if said not in self._named:
            logger.warning("kubernetes: left alone %s", said)
            self._named[said] = None
            if len(self._named) > _MOST_NAMED:
                del self._named[next(iter(self._named))]

    def _checked(self, found: Manifest, kind: str, namespace: str) -> Manifest:
        try:
            return checked_pod(found, namespace) if kind == "pods" else found
        except OddAnswer as error:
            raise self._odd(error) from None

    def _odd(self, error: OddAnswer) -> EngineUnavailable:
        return EngineUnavailable(f"the Kubernetes API at {self._client.configuration.host} answers oddly: {error}")

    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Manifest | None = None
    ) -> Manifest:
        """One request; the object that answers it. Raises KubeError, EngineUnavailable."""
        try:
            return read_json(await self._ask(method, path, query=query, body=body))
        except OddAnswer as error:
            raise self._odd(error) from None

    async def _ask(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Manifest | None = None
    ) -> bytes:
        """The answer to a request, which is repeated while the server says that we ask too much."""
        is_reloaded, told_to_wait = False, 0
        while True:
            response = await self._respond(method, path, query=query, body=body, timeout=_TIMEOUT)
            try:
                async with asyncio.timeout(_TIMEOUT):
                    content = await _content(response)
            except (OSError, TimeoutError, ValueError, self._client_error()) as error:
                response.close()
                raise EngineUnavailable(f"the Kubernetes API broke off: {_said(error)}") from error
            finally:
                response.release()
            if response.status < 300:
                return content
            if response.status == 401 and not is_reloaded:  # a token that was replaced meanwhile
                is_reloaded = True
                await self._read_token_again()
                continue
            refusal = self._refusal(response, content)
            if response.status == 429:
                told_to_wait += 1
                if told_to_wait < _TOLD_TO_WAIT:
                    continue
            raise refusal

    async def _read_token_again(self) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self._reload()
        except Exception as error:  # of files, or of a program that the kubeconfig names
            raise EngineUnavailable(
                f"the Kubernetes API refuses our token, and there is no other: {_said(error)}"
            ) from error

    def _refusal(self, response: Any, content: bytes) -> Exception:
        """What an answer means that is an error. Notes until when the server wants to hear nothing."""
        error = _error_of(response.status, content)
        if response.status == 429:
            self._wait(response.headers.get("Retry-After"))
        if response.status < 400:
            return EngineUnavailable(
                f"the Kubernetes API answers {response.status}, a redirect, which is not followed: give its own address"
            )
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


class _OnlyThere:
    """A session of aiohttp that follows no redirect: what is sent are jobs, with their tokens."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def request(self, **asked: Any) -> Any:
        return await self._session.request(**asked, allow_redirects=False)

    async def close(self) -> None:
        await self._session.close()


async def _content(response: Any) -> bytes:
    """The body of an answer. Raises ValueError for one that is too long."""
    found = bytearray()
    while part := await response.content.read(_PART):
        found += part
        if len(found) > _MOST_BYTES:
            raise ValueError(f"its answer has more than {_MOST_BYTES:,} bytes")
    return bytes(found)


async def _lines(response: Any, ends_at: float) -> AsyncIterator[bytes]:
    """The lines of a watch that are not empty. Raises ValueError for one that is too long, TimeoutError at its end."""
    rest = bytearray()
    while True:
        async with asyncio.timeout_at(ends_at):
            part = await response.content.read(_PART)
        if not part:
            return
        searched = len(rest)
        rest += part
        while (end := rest.find(b"\n", searched)) >= 0:
            line, searched = bytes(rest[:end]), 0
            del rest[: end + 1]
            if line.strip():
                yield line
        if len(rest) > _MOST_IN_LINE:
            raise ValueError(f"a line has more than {_MOST_IN_LINE:,} bytes")


def _error_of(status: int, content: bytes) -> KubeError:
    try:
        found = read_json(content)
    except OddAnswer:
        found = {}
    if found.get("kind") == "Status":
        return _error(status_of(found), status)
    return KubeError(status, "", content[:500].decode(errors="replace"))


def _error(status: StatusObject, answered: int = 0) -> KubeError:
    return KubeError(status.code or answered, status.reason or "", (status.message or "")[:_MOST_MESSAGE])


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
