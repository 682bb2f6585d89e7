"""What an answer of the Kubernetes API may be: the shape of the parts that we read. Pure.

Objects stay the plain dicts that they are; what is checked here can be read without a further look at its types. Parts
that nobody here reads may be anything.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

Manifest = dict[str, Any]
T = TypeVar("T")

_MOST_WORDS: Final = 200  # characters of what is wrong with an object


class OddAnswer(ValueError):
    """An answer that is none of the Kubernetes API; says what is wrong with it."""


class _Terminated(msgspec.Struct):
    exitCode: int | None = None
    signal: int | None = None
    reason: str | None = None
    message: str | None = None


class _Waiting(msgspec.Struct):
    reason: str | None = None
    message: str | None = None


class _State(msgspec.Struct):
    terminated: _Terminated | None = None
    waiting: _Waiting | None = None


class _ContainerStatus(msgspec.Struct):
    name: str
    image: str | None = None
    state: _State | None = None


class _Condition(msgspec.Struct):
    type: str
    status: str
    reason: str | None = None
    message: str | None = None


class _Status(msgspec.Struct):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[_Condition] | None = None
    initContainerStatuses: list[_ContainerStatus] | None = None
    containerStatuses: list[_ContainerStatus] | None = None


class _Resources(msgspec.Struct):
    limits: dict[str, str | int | float] | None = None


class _Container(msgspec.Struct):
    name: str
    image: str | None = None
    resources: _Resources | None = None


class _SecretVolume(msgspec.Struct):
    secretName: str | None = None


class _Volume(msgspec.Struct):
    name: str
    secret: _SecretVolume | None = None


class _Spec(msgspec.Struct):
    nodeName: str | None = None
    containers: list[_Container] | None = None
    initContainers: list[_Container] | None = None
    volumes: list[_Volume] | None = None


class _Metadata(msgspec.Struct):
    name: str
    namespace: str
    uid: str
    resourceVersion: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


class _Continued(msgspec.Struct):
    resourceVersion: str
    continue_: str | None = msgspec.field(default=None, name="continue")


class PodPage(msgspec.Struct):
    """A page of a list; its items are not looked at yet."""

    metadata: _Continued
    items: list[Any] | None = None


class WatchEvent(msgspec.Struct):
    """A line of a watch; its object is not looked at yet."""

    type: str
    object: dict[str, Any]


class StatusObject(msgspec.Struct):
    """An error, as Kubernetes says it."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None


def read_json(content: bytes) -> Manifest:
    """The object of an answer. Raises OddAnswer."""
    return _read(content, dict[str, Any], "JSON object")


def page_of(content: bytes) -> PodPage:
    """A page of a list. Raises OddAnswer."""
    return _read(content, PodPage, "list of pods")


def event_of(line: bytes) -> WatchEvent:
    """An event of a watch. Raises OddAnswer."""
    return _read(line, WatchEvent, "event")


def _read(content: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (ValueError, RecursionError) as error:
        raise OddAnswer(f"no {what} ({_said(error)})") from None


def status_of(found: Manifest) -> StatusObject:
    """The error in an object; an empty one if it is none that can be read."""
    try:
        return msgspec.convert(found, StatusObject)
    except ValueError:
        return StatusObject()


def checked_pod(found: Any, namespace: str) -> Manifest:
    """This object, which is a pod of that namespace. Raises OddAnswer."""
    try:
        pod = msgspec.convert(found, _Pod)
    except (ValueError, RecursionError) as error:
        raise OddAnswer(f"the object {_name(found)!r} is no pod that can be read ({_said(error)})") from None
    if pod.metadata.namespace != namespace:
        raise OddAnswer(f"the pod {pod.metadata.name!r:.100} is of namespace {pod.metadata.namespace!r:.100}")
    checked: Manifest = found
    return checked


def version_of(found: Manifest) -> str | None:
    """The version of an object, if it says one."""
    metadata = found.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) and version else None


def _name(found: Any) -> str:
    metadata = found.get("metadata") if isinstance(found, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name[:100] if isinstance(name, str) else "without a name"


def _said(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:_MOST_WORDS]
