"""Reads docker-compose.yml and the Dockerfile: what each container gets, as frozen data.

Only what these two files use is understood; anything else is an error, so that no test overlooks what the file says.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
SECRETS: Final = "deploy/compose/secrets"
VARIABLES: Final = {"SECRETS": f"./{SECRETS}"}  # as deploy/compose/passwords writes it

_KNOWN: Final = frozenset(
    {
        *(
            "build",
            "cap_drop",
            "entrypoint",
            "command",
            "depends_on",
            "environment",
            "healthcheck",
            "image",
            "init",
            "networks",
        ),
        *("ports", "profiles", "read_only", "restart", "secrets", "security_opt", "stop_grace_period", "tmpfs"),
        *("user", "volumes"),
    }
)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_GRACE: Final = 10.0  # seconds; what Docker waits if nothing is said


class MissingVariable(Exception):
    """`docker compose` ends with this message before it starts anything."""


@dataclass(frozen=True, slots=True)
class Health:
    test: tuple[str, ...]  # a command and its arguments
    interval: float  # seconds, like the others
    timeout: float
    retries: int
    start_period: float


@dataclass(frozen=True, slots=True)
class Mount:
    source: str  # the name of a volume, or an absolute path
    target: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class Image:
    """What an image brings: the defaults of its containers."""

    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str]
    user: tuple[int, int]
    folder: str
    volumes: tuple[str, ...]
    stop_signal: str
    health: Health | None


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    image: str
    build_args: Mapping[str, str]
    entrypoint: tuple[str, ...] | None  # None: that of its image, as with its command
    command: tuple[str, ...] | None
    environment: Mapping[str, str]
    secrets: frozenset[str]  # each a file below /run/secrets
    networks: frozenset[str]
    depends_on: Mapping[str, str]  # the condition, by service
    mounts: tuple[Mount, ...]
    tmpfs: tuple[str, ...]
    ports: tuple[str, ...]
    health: Health | None
    profiles: frozenset[str]
    read_only: bool
    unprivileged: bool  # no capability, and no program may bring one back
    init: bool
    stop_grace: float  # seconds from the stop signal to SIGKILL
    restart: str


@dataclass(frozen=True, slots=True)
class Compose:
    name: str
    services: Mapping[str, Service]
    volumes: frozenset[str] = field(default_factory=frozenset)
    secrets: Mapping[str, str] = field(default_factory=dict)  # the file of each, as it is written
    closed: frozenset[str] = field(default_factory=frozenset)  # networks without a way out

    def of_profiles(self, *profiles: str) -> list[Service]:
        """The services that start with these profiles, each after those that it depends on."""
        chosen = {n: s for n, s in self.services.items() if not s.profiles or s.profiles & set(profiles)}
        ordered: list[Service] = []
        while len(ordered) < len(chosen):
            done = {service.name for service in ordered}
            ready = [s for s in chosen.values() if s.name not in done and set(s.depends_on) <= done]
            assert ready, f"depends_on goes round in a circle, or out of the profile: {sorted(set(chosen) - done)}"
            ordered += ready
        return ordered


def seconds(text: str) -> float:
    """A duration of a compose file or a Dockerfile: 1m30s, 500ms."""
    parts = re.findall(r"(\d+)(ms|s|m|h)", text)
    assert "".join(n + u for n, u in parts) == text, text
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


def interpolated(text: str, variables: Mapping[str, str]) -> str:
    """`${NAME:-default}`, and `${NAME:?what to do}`, an error without it: an empty variable counts as unset."""

    def value(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        if not variables.get(name) and kind == "?":
            raise MissingVariable(f"{name}: {rest}")
        return variables.get(name) or rest

    return re.sub(r"\$\{(\w+):([-?])([^}]*)\}", value, text)


def _with_variables(node: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        return {key: _with_variables(value, variables) for key, value in node.items()}
    if isinstance(node, list):
        return [_with_variables(item, variables) for item in node]
    return interpolated(node, variables) if isinstance(node, str) else node


def read_compose(variables: Mapping[str, str], path: Path = ROOT / "docker-compose.yml") -> Compose:
    """The compose file, with these variables in place of the environment of `docker compose`."""
    content = _with_variables(yaml.safe_load(path.read_text(encoding="utf-8")), variables)
    volumes = frozenset(content["volumes"])
    services = {name: _service(name, said, volumes, path.parent) for name, said in content["services"].items()}
    secrets = {name: said["file"] for name, said in content.get("secrets", {}).items()}
    networks = {name: dict(said or {}) for name, said in content.get("networks", {}).items()}
    assert all(set(said) <= {"internal"} for said in networks.values()), networks
    for service in services.values():
        assert service.secrets <= set(secrets), service.name
        assert service.networks <= set(networks), service.name
    closed = frozenset(name for name, said in networks.items() if said.get("internal"))
    return Compose(content["name"], services, volumes, secrets, closed)


def _service(name: str, said: Mapping[str, Any], volumes: frozenset[str], folder: Path) -> Service:
    assert set(said) <= _KNOWN, f"{name}: this reader does not know {sorted(set(said) - _KNOWN)}"
    depends = said.get("depends_on", {})
    dropped, options = said.get("cap_drop", []), said.get("security_opt", [])
    assert dropped in (["ALL"], []), name
    assert options == ["no-new-privileges:true"] or (not dropped and options == []), name
    return Service(
        name=name,
        image=said["image"],
        build_args=said.get("build", {}).get("args", {}),
        entrypoint=tuple(said["entrypoint"]) if "entrypoint" in said else None,
        command=tuple(said["command"]) if "command" in said else None,
        environment={key: str(value) for key, value in said.get("environment", {}).items()},
        secrets=frozenset(said.get("secrets", [])),
        networks=frozenset(said.get("networks", ["default"])),
        depends_on=dict.fromkeys(depends, "service_started")
        if isinstance(depends, list)
        else {other: how["condition"] for other, how in depends.items()},
        mounts=tuple(_mount(text, volumes, folder) for text in said.get("volumes", [])),
        tmpfs=tuple(said.get("tmpfs", [])),
        ports=tuple(said.get("ports", [])),
        health=_health(said["healthcheck"]) if "healthcheck" in said else None,
        profiles=frozenset(said.get("profiles", [])),
        read_only=said.get("read_only", False),
        unprivileged=bool(dropped),
        init=said.get("init", False),
        stop_grace=seconds(said["stop_grace_period"]) if "stop_grace_period" in said else _GRACE,
        restart=said.get("restart", "no"),
    )


def _mount(text: str, volumes: frozenset[str], folder: Path) -> Mount:
    source, target, *how = text.split(":")
    if source.startswith((".", "/")):
        source = str((folder / source).resolve())
    else:
        assert source in volumes, f"the volume {source} is not declared"
    assert how in ([], ["ro"]), text
    return Mount(source, target, read_only=how == ["ro"])


def _health(said: Mapping[str, Any]) -> Health:
    kind, *words = said["test"]
    return Health(
        test=tuple(words) if kind == "CMD" else ("sh", "-c", *words),
        interval=seconds(said.get("interval", "30s")),
        timeout=seconds(said.get("timeout", "30s")),
        retries=said.get("retries", 3),
        start_period=seconds(said.get("start_period", "0s")),
    )


def read_dockerfile(path: Path = ROOT / "Dockerfile") -> Image:
    """What the last stage of the Dockerfile says about its containers."""
    found = _instructions(path.read_text(encoding="utf-8"))
    last = max(number for number, (word, _) in enumerate(found) if word == "FROM")
    stage: dict[str, str] = {}
    for word, rest in found[last:]:
        stage[word] = f"{stage[word]} {rest}" if word == "ENV" and word in stage else rest
    uid, gid = stage["USER"].split(":")
    return Image(
        entrypoint=tuple(json.loads(stage["ENTRYPOINT"])),
        command=tuple(json.loads(stage["CMD"])),
        environment=dict(pair.split("=", 1) for pair in shlex.split(stage["ENV"])),
        user=(int(uid), int(gid)),
        folder=stage["WORKDIR"],
        volumes=tuple(json.loads(stage["VOLUME"])),
        stop_signal=stage["STOPSIGNAL"],
        health=_health_of_dockerfile(stage["HEALTHCHECK"]),
    )


def _instructions(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(word, rest.strip()) for word, rest in (line.split(" ", 1) for line in joined.splitlines())]


def _health_of_dockerfile(text: str) -> Health:
    options, command = text.split(" CMD ")
    said: dict[str, str] = dict(re.findall(r"--([\w-]+)=(\S+)", options))
    return Health(
        test=tuple(json.loads(command)),
        interval=seconds(said["interval"]),
        timeout=seconds(said["timeout"]),
        retries=int(said["retries"]),
        start_period=seconds(said["start-period"]),
    )
