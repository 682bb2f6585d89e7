"""One container as a process of this machine, with what the kernel offers any root: namespaces and an overlay.

It has a tree of its own over a given one (an image that is mounted, or this machine's root), which is read-only if the
service says so; its own host name, processes and /tmp; the volumes and folders that the service names; the user of its
image, without capabilities. Not like Docker: all containers of a project share one network with nothing but loopback,
where every service's name is 127.0.0.1; there is no init process in front, no seccomp profile and no limit of memory.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_PROGRAMS: Final = ("unshare", "nsenter", "setpriv", "mount", "ip", "chroot")
_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def why_not() -> str | None:
    """Why containers cannot be run like this here; None if they can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "only root on Linux may make namespaces and mount overlays"
    if missing := [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]:
        return f"not installed: {', '.join(missing)} (apt-get install util-linux iproute2)"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "sh", "-c", _TRY], capture_output=True, text=True
    )
    return None if tried.returncode == 0 else f"namespaces or overlays are not allowed here: {tried.stderr.strip()}"


_WITH_US: Final = ("setpriv", "--pdeathsig", "KILL")  # nothing outlives the test, whatever ends that
_ENTER_NEW: Final = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child")
_TRY: Final = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
"""

_SET_UP: Final = """
set -e
hostname "$NAME"
mount --make-rprivate /
mkdir -p "$SCRATCH/layer"
mount -t tmpfs tmpfs "$SCRATCH/layer"
mkdir "$SCRATCH/layer/upper" "$SCRATCH/layer/work" "$SCRATCH/layer/root"
root="$SCRATCH/layer/root"
mount -t overlay overlay -o "lowerdir=$TREE,upperdir=$SCRATCH/layer/upper,workdir=$SCRATCH/layer/work" "$root"
chmod a+rx "$root" "$root/root" 2>/dev/null || true
cp "$SCRATCH/hosts" "$root/etc/hosts"
rm -f "$root/etc/resolv.conf"
mkdir -p "$root/dev" "$root/proc" "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir -m 1777 "$root/dev/shm"
mount -t tmpfs -o mode=1777,size=64m tmpfs "$root/dev/shm"
for device in null zero random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mount -t proc proc "$root/proc"
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a container is to be."""

    name: str  # its host name
    command: tuple[str, ...]
    environment: Mapping[str, str]
    user: tuple[int, int]
    folder: str  # where the command starts
    tree: Path  # what its own tree lies over
    binds: tuple[tuple[Path, str, bool], ...]  # a folder of this machine, where it appears, whether it is read-only
    tmpfs: tuple[str, ...]
    read_only: bool
    unprivileged: bool
    stop_signal: str
    stop_grace: float


@dataclass
class Network:
    """The network that the containers of a project share: loopback only."""

    holder: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        self.holder = subprocess.Popen(
            [*_WITH_US, "unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PATH": _PATH},
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "up\n"

    @property
    def enter(self) -> list[str]:
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]

    def close(self) -> None:
        self.holder.kill()
        self.holder.communicate()


class Container:
    """A running container; its output goes to a file."""

    def __init__(self, plan: Plan, network: Network, scratch: Path, hosts: Sequence[str]) -> None:
        self.plan, self.scratch, self.killed = plan, scratch, False
        scratch.mkdir(parents=True)
        (scratch / "hosts").write_text(f"127.0.0.1 localhost {plan.name} {' '.join(hosts)}\n")
        (scratch / "start.sh").write_text(self._script())
        self.log_file = scratch / "log"
        with self.log_file.open("w") as log:
            self._process = subprocess.Popen(
                [*_WITH_US, *network.enter, *_ENTER_NEW, "sh", str(scratch / "start.sh")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": _PATH, "NAME": plan.name, "TREE": str(plan.tree), "SCRATCH": str(scratch)},
            )

    def _script(self) -> str:
        plan = self.plan
        lines = [_SET_UP, *(f'mount -t tmpfs -o mode=1777 tmpfs "$root{path}"' for path in plan.tmpfs)]
        for source, target, read_only in plan.binds:
            lines.append(f'mkdir -p "$root{target}"; mount --bind {shlex.quote(str(source))} "$root{target}"')
            if read_only:
                lines.append(f'mount -o remount,bind,ro "$root{target}"')
        lines.append(f'mkdir -p "$root{plan.folder}"')
        if plan.read_only:
            lines.append('mount -o remount,ro "$root"')
        command = shlex.join([*self._as_user(), "sh", "-c", 'cd "$0" && exec "$@"', plan.folder, *plan.command])
        lines.append(f'exec chroot "$root" {command}')
        return "\n".join(lines)

    def _as_user(self) -> list[str]:
        uid, gid = self.plan.user
        rights = ["--no-new-privs", "--bounding-set=-all"] if self.plan.unprivileged else []
        environment = {"HOSTNAME": self.plan.name, **self.plan.environment}
        return [
            *("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", *rights, "env", "-i"),
            *(f"{key}={value}" for key, value in environment.items()),
        ]

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    @property
    def pid(self) -> int | None:
        """Process 1 of the container, as this machine numbers it, once it is in its tree; None once it has ended."""
        here = Path("/").stat()
        while self._process.poll() is None:
            with contextlib.suppress(OSError):
                found = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
                if found and not os.path.samestat(Path(f"/proc/{found[0]}/root").stat(), here):
                    return int(found[0])
            pause()
        return None

    def run(self, *command: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command in it, as its user."""
        pid = self.pid
        assert pid is not None, f"{self.plan.name} has ended with {self.exit_code}: {self.log[-2000:]}"
        enter = ["nsenter", "--target", str(pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd"]
        return subprocess.run(
            [*enter, "--", *self._as_user(), *command],
            env={"PATH": _PATH},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def signal(self, number: signal.Signals) -> None:
        if (pid := self.pid) is not None:
            os.kill(pid, number)

    def ask_to_stop(self) -> None:
        self.signal(signal.Signals[self.plan.stop_signal])

    def wait(self, seconds: float | None = None) -> int:
        """Its exit code, after at most so long (None: its grace), when it is killed as Docker would."""
        try:
            return self._process.wait(self.plan.stop_grace if seconds is None else seconds)
        except subprocess.TimeoutExpired:
            self.killed = True
            self.kill()
            return self._process.wait()

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


def pause() -> None:
    """Between two looks at something that has no way to say that it has changed."""
    time.sleep(0.2)
