"""`docker compose up --scale …` without Docker: the services of the compose file as containers of containers.py.

Our own image is a tree (this machine's root with the installed aiosched, or an image that was built) with what the
Dockerfile says; that of PostgreSQL is imitated with the server of the wheel.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from aiosched.db.server.embedded_host import Account, binaries
from tests.deploy.compose import Compose, Image, Mount, Service, read_dockerfile, replicas
from tests.deploy.containers import Container, Network, Plan, pause
from tests.patience import PATIENCE

OUR_IMAGE: Final = "aiosched"
HOST: Final = Path("/")

_POSTGRES: Final = """
set -e
data=/var/lib/postgresql/18/docker
if [ ! -e "$data/PG_VERSION" ]; then
    mkdir -p "$data"
    printf %s "$POSTGRES_PASSWORD" > /tmp/password
    initdb --username "$POSTGRES_USER" --pwfile /tmp/password --auth-local trust --auth-host scram-sha-256 \\
        --no-sync -D "$data" >/dev/null
    echo "host all all all scram-sha-256" >> "$data/pg_hba.conf"
    echo "CREATE DATABASE \\"$POSTGRES_DB\\"" | postgres --single -D "$data" postgres >/dev/null
    pg_ctl start --wait --silent -D "$data" \\
        -o "-c listen_addresses= -c unix_socket_directories=/tmp -c fsync=off" >/dev/null
    for script in /docker-entrypoint-initdb.d/*.sh; do sh "$script"; done
    pg_ctl stop --wait --silent -D "$data" >/dev/null
fi
exec postgres -D "$data" -c listen_addresses='*' -c unix_socket_directories=/tmp -c fsync=off
"""


def postgres_image() -> Image:
    """What the official image does at its first start, as far as the compose file relies on it."""
    account = Account.for_data(Path("/nowhere"))
    return Image(
        entrypoint=("sh", "-c", _POSTGRES),
        command=(),
        environment={"PATH": f"{binaries()}:/usr/bin:/bin", "PGHOST": "/tmp"},
        user=(account.uid, account.gid),
        folder="/",
        volumes=(),
        stop_signal="SIGINT",
        health=None,
    )


def installed_image() -> Image:
    """The Dockerfile's image, with the aiosched of this Python instead of the one in /opt."""
    image = read_dockerfile()
    here = Path(sys.executable).parent
    search = os.pathsep.join(path for path in (os.environ.get("PYTHONPATH"),) if path)
    return replace(
        image,
        environment={
            **image.environment,
            "PATH": f"{here}:{image.environment['PATH']}",
            **({"PYTHONPATH": search} if search else {}),
        },
    )


class Project:
    """The containers of a compose file."""

    def __init__(self, compose: Compose, scratch: Path, images: Mapping[str, tuple[Image, Path]]) -> None:
        self.compose, self.scratch, self.images = compose, scratch, images
        self.network = Network()
        self.containers: dict[str, list[Container]] = {}
        self._numbers = itertools.count(1)

    def up(self, *profiles: str, scale: Mapping[str, int] | None = None) -> None:
        """Start every service of the default profile and of these, each after the conditions that it names."""
        for service in self.compose.of_profiles(*profiles):
            for other, condition in service.depends_on.items():
                assert condition in ("service_started", "service_healthy", "service_completed_successfully"), condition
                if condition == "service_healthy":
                    self.wait_until_healthy(other)
                if condition == "service_completed_successfully":
                    self.wait_until_done(other)
            self.start(service, scale or {})

    def start(self, service: Service, scale: Mapping[str, int]) -> None:
        for name in replicas(service, scale):
            self.containers.setdefault(service.name, []).append(self._container(service, name))

    def run(self, service: str, *command: str, folders: Mapping[Path, str]) -> str:
        """`docker compose run --rm --volume … SERVICE COMMAND`: what it says, once it has succeeded."""
        mounts = tuple(Mount(str(source), target, read_only=False) for source, target in folders.items())
        said = self.compose.services[service]
        once = replace(said, command=command, mounts=(*said.mounts, *mounts))
        container = self._container(once, f"{service}-run-{next(self._numbers)}")
        try:
            code = container.wait(PATIENCE)
            assert code == 0, container.log
            return container.log
        finally:
            container.kill()

    def _container(self, service: Service, name: str) -> Container:
        folder = self.scratch / "containers" / name
        return Container(self._plan(service, name), self.network, folder, list(self.compose.services))

    def _plan(self, service: Service, name: str) -> Plan:
        image, tree = self.images[service.image]
        binds = [(self._source(mount, image), mount.target, mount.read_only) for mount in service.mounts]
        if tree == HOST and Path(sys.prefix).is_relative_to("/tmp"):  # its own /tmp would hide this Python
            binds.append((Path(sys.prefix), sys.prefix, True))
        taken = {target for _, target, _ in binds}
        binds += [(self._volume(name + v.replace("/", "-"), image), v, False) for v in image.volumes if v not in taken]
        return Plan(
            name=name,
            command=(service.entrypoint or image.entrypoint) + (service.command or image.command),
            environment={**image.environment, **service.environment},
            user=image.user,
            folder=image.folder,
            tree=tree,
            binds=tuple(binds),
            tmpfs=service.tmpfs if service.read_only else ("/tmp",),
            read_only=service.read_only,
            unprivileged=service.unprivileged,
            stop_signal=image.stop_signal,
            stop_grace=service.stop_grace,
        )

    def _source(self, mount: Mount, image: Image) -> Path:
        return Path(mount.source) if mount.source.startswith("/") else self._volume(mount.source, image)

    def _volume(self, name: str, image: Image) -> Path:
        """A named volume: made when it is first used, with the owner that the folder has in the image."""
        folder = self.scratch / "volumes" / name
        if not folder.exists():
            folder.mkdir(parents=True)
            os.chown(folder, *image.user)
        return folder

    def healthy(self, service: str, container: Container) -> subprocess.CompletedProcess[str]:
        said = self.compose.services[service]
        health = said.health or self.images[said.image][0].health
        assert health is not None, f"{service} has no health check"
        return container.run(*health.test)

    def wait_until_healthy(self, service: str) -> None:
        """Return when every container of a service is healthy; one that ends is an error."""
        ends = time.monotonic() + PATIENCE
        for container in self.containers[service]:
            while (seen := self.healthy(service, container)).returncode != 0:
                said = f"{container.plan.name}: {seen.stdout}{seen.stderr}\n{container.log[-4000:]}"
                assert container.exit_code is None, said
                assert time.monotonic() < ends, said
                pause()

    def wait_until_done(self, service: str) -> None:
        """Return when every container of a service has ended well."""
        for container in self.containers[service]:
            assert container.wait(PATIENCE) == 0, container.log

    def stop(self, service: str) -> list[int]:
        """Stop its containers together, as `docker compose stop` does; their exit codes."""
        for container in self.containers[service]:
            container.ask_to_stop()
        return [container.wait() for container in self.containers[service]]

    def down(self) -> dict[str, list[int]]:
        """Stop everything, what depends on others first; the exit codes by service."""
        order = [service.name for service in self.compose.of_profiles() if service.name in self.containers]
        return {name: self.stop(name) for name in reversed(order)}

    def close(self) -> None:
        for container in (one for several in self.containers.values() for one in several):
            container.kill()
        self.network.close()


@contextlib.contextmanager
def project(compose: Compose, scratch: Path, images: Mapping[str, tuple[Image, Path]]) -> Iterator[Project]:
    """A project whose containers are killed at the end of the block."""
    made = Project(compose, scratch, images)
    try:
        yield made
    finally:
        made.close()
