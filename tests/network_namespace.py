"""A network of its own behind one cable, in Linux's kernel, and what may happen to its packets."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

CAN_ISOLATE = os.geteuid() == 0 and shutil.which("ip") is not None
CANNOT_ISOLATE = "network namespaces need root and the command ip (Debian package iproute2)"


@contextlib.contextmanager
def network_namespace() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Our address on the cable, the one inside, and the command that enters the network.

    What runs there reaches nothing but what listens on our address.
    """
    name, number = f"aiosched{os.getpid()}", os.getpid() % 250 + 1
    ours, theirs = f"10.231.{number}.1", f"10.231.{number}.2"

    def run(*words: str) -> None:
        subprocess.run(words, check=True, capture_output=True)

    run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", f"a{number}", "type", "veth", "peer", "name", f"b{number}", "netns", name)
        run("ip", "link", "set", f"a{number}", "addrgenmode", "none")  # else it gets an address of IPv6 later
        run("ip", "address", "add", f"{ours}/30", "dev", f"a{number}")
        run("ip", "link", "set", f"a{number}", "up")
        run("ip", "-n", name, "address", "add", f"{theirs}/30", "dev", f"b{number}")
        run("ip", "-n", name, "link", "set", f"b{number}", "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        yield ours, theirs, ("ip", "netns", "exec", name)
    finally:
        subprocess.run(["ip", "link", "delete", f"a{number}"], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


@dataclass(frozen=True)
class Wire:
    """What happens to the packets between a network of its own and a port on our side of its cable."""

    enter: tuple[str, ...]
    port: int

    def swallow_present_connections(self) -> None:
        """Nobody is told, and new connections work: a NAT that has lost its table."""
        for number in self._local_ports():
            self._rule("OUTPUT", "--sport", number)
            self._rule("INPUT", "--dport", number)

    def cut(self) -> None:
        """No packet gets through."""
        self._rule("OUTPUT")
        self._rule("INPUT")

    def lose_answers(self) -> None:
        """What is sent arrives, what comes back does not."""
        self._rule("INPUT")

    def lose(self, share: float) -> None:
        """A share of the packets is lost, in each direction."""
        for chain in ("OUTPUT", "INPUT"):
            self._rule(chain, "-m", "statistic", "--mode", "random", "--probability", str(share))

    def reset(self) -> None:
        """Each packet that is sent is answered by a reset."""
        self._rule("OUTPUT", target=("REJECT", "--reject-with", "tcp-reset"))

    def delay(self) -> None:
        """Little gets through at a time, and the rest waits in a queue."""
        device = next(word for word in self._run("ip", "-o", "link").split() if "@" in word).partition("@")[0]
        self._run(
            "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", "128kbit", "burst", "4kb", "latency", "3s"
        )

    def heal(self) -> None:
        """All is well again, for the connections that are left."""
        self._run("iptables", "-F")
        with contextlib.suppress(subprocess.CalledProcessError):
            self._run("tc", "qdisc", "del", "dev", self._device(), "root")

    def _device(self) -> str:
        return next(word for word in self._run("ip", "-o", "link").split() if "@" in word).partition("@")[0]

    def _rule(self, chain: str, *match: str, target: tuple[str, ...] = ("DROP",)) -> None:
        side = "--dport" if chain == "OUTPUT" else "--sport"
        self._run("iptables", "-A", chain, "-p", "tcp", side, str(self.port), *match, "-j", *target)

    def _local_ports(self) -> list[str]:
        lines = self._run("ss", "-Htn", "state", "established", f"( dport = :{self.port} )").splitlines()
        return [line.split()[2].rpartition(":")[2] for line in lines]

    def _run(self, *words: str) -> str:
        done = subprocess.run([*self.enter, *words], check=False, capture_output=True, text=True)
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, words, done.stdout, done.stderr)
        return done.stdout
