"""A daemon that speaks Docker's API as far as operators do, and runs the commands of containers as processes.

An image is a name. Paths below `/tmp` in a command are those of the container's folder.
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import io
import itertools
import json
import os
import re
import signal
import socketserver
import struct
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

_VERSION = {"Version": "28.0", "ApiVersion": "1.45", "MinAPIVersion": "1.24", "Os": "linux", "Arch": "amd64"}


class DockerError(Exception):
    """An answer with a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Container:
    """One container: its settings, and its process once it is started."""

    id: str
    config: Mapping[str, Any]
    folder: Path
    started: threading.Event = field(default_factory=threading.Event)
    process: subprocess.Popen[bytes] | None = None

    def inside(self, text: str) -> str:
        """The same with the paths of this machine."""
        return text.replace("/tmp/", f"{self.folder}/tmp/")

    def start(self) -> None:
        (self.folder / "tmp").mkdir(parents=True)
        environment = {"PATH": os.environ["PATH"]} | dict(one.split("=", 1) for one in self.config.get("Env") or ())
        words = [*(self.config.get("Entrypoint") or ()), *(self.config.get("Cmd") or ())]
        self.process = subprocess.Popen(
            [self.inside(word) for word in words],
            env=environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.started.set()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def remove(self) -> None:
        self.stop()
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()


class DockerDaemon:
    """What the daemon has: `images` that can be pulled, `containers`, and a list of what it did (`done`)."""

    def __init__(self, folder: Path, images: frozenset[str]) -> None:
        self.folder, self.images = folder, images
        self.pulled: set[str] = set()
        self.containers: dict[str, Container] = {}
        self.numbers = itertools.count(1)
        self.done: list[str] = []
        self.logins: list[Mapping[str, Any]] = []
        self.socket = folder / "docker.sock"
        self.url = f"unix://{self.socket}"

    @contextlib.contextmanager
    def open(self) -> Iterator[DockerDaemon]:
        """Answer at `url`."""
        handler = type("DockerHandlerOfOne", (DockerHandler,), {"daemon": self})
        server = _UnixServer(str(self.socket), handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            for container in self.containers.values():
                container.remove()
            server.shutdown()
            thread.join()
            server.server_close()

    def container(self, id_: str) -> Container:
        if id_ not in self.containers:
            raise DockerError(404, f"No such container: {id_}")
        return self.containers[id_]


class _UnixServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class DockerHandler(http.server.BaseHTTPRequestHandler):
    """The requests, by method and path."""

    protocol_version = "HTTP/1.1"
    daemon: DockerDaemon

    def handle_one(self) -> None:
        parts = urlsplit(self.path)
        path = re.sub(r"^/v1\.\d+", "", parts.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or "null")
        try:
            for method, pattern, act in ROUTES:
                if method == self.command and (found := re.fullmatch(pattern, path)):
                    act(self, *found.groups(), query, body)
                    return
            raise DockerError(404, f"page not found: {self.command} {path}")
        except DockerError as error:
            self.answer({"message": str(error)}, status=error.status)

    do_GET = do_POST = do_DELETE = do_HEAD = handle_one

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self, found: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        content = found if isinstance(found, bytes) else json.dumps(found).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if status != 204 and self.command != "HEAD":
            self.wfile.write(content)

    # -- endpoints

    def ping(self, query: Any, body: Any) -> None:
        self.answer(b"OK", headers={"Content-Type": "text/plain"})

    def version(self, query: Any, body: Any) -> None:
        self.answer(_VERSION)

    def login(self, query: Any, body: Any) -> None:
        self.daemon.logins.append(body)
        if body["password"] != "open":
            raise DockerError(401, "unauthorized: incorrect username or password")
        self.answer({"Status": "Login Succeeded"})

    def list_images(self, query: Any, body: Any) -> None:
        wanted = json.loads(query.get("filters") or "{}").get("reference")
        found = [name for name in sorted(self.daemon.pulled) if not wanted or name in wanted]
        self.answer([{"Id": f"sha256:{name}", "RepoTags": [name]} for name in found])

    def pull(self, query: Any, body: Any) -> None:
        name = f"{query['fromImage']}:{query.get('tag') or 'latest'}"
        if name not in self.daemon.images:
            raise DockerError(404, f"manifest for {name} not found: manifest unknown")
        self.daemon.pulled.add(name)
        self.daemon.done.append(f"pull {name}")
        news: list[dict[str, str]] = [{"status": f"Pulling from {name}", "id": name}, {"status": "Download complete"}]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for text in (*(json.dumps(one) + "\r\n" for one in news), ""):
            self.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())

    def create(self, query: Any, body: Any) -> None:
        if body["Image"] not in self.daemon.pulled:
            raise DockerError(404, f"No such image: {body['Image']}")
        id_ = f"{next(self.daemon.numbers):064x}"
        self.daemon.containers[id_] = Container(id_, body, self.daemon.folder / id_[-8:])
        self.daemon.done.append("create")
        self.answer({"Id": id_, "Warnings": []}, status=201)

    def inspect(self, id_: str, query: Any, body: Any) -> None:
        container = self.daemon.container(id_)
        self.answer({"Id": id_, "Config": {**container.config, "Tty": container.config.get("Tty", False)}})

    def start(self, id_: str, query: Any, body: Any) -> None:
        self.daemon.container(id_).start()
        self.answer(b"", status=204)

    def attach(self, id_: str, query: Any, body: Any) -> None:
        """The connection becomes the container's output, in frames."""
        container = self.daemon.container(id_)
        self.send_response(101)
        for name, value in (("Content-Type", "application/vnd.docker.raw-stream"), ("Connection", "Upgrade")):
            self.send_header(name, value)
        self.send_header("Upgrade", "tcp")
        self.end_headers()
        self.close_connection = True
        self.wfile.flush()
        container.started.wait(60)
        assert container.process is not None
        assert container.process.stdout is not None
        for line in container.process.stdout:
            self.wfile.write(struct.pack(">BxxxL", 1, len(line)) + line)

    def wait(self, id_: str, query: Any, body: Any) -> None:
        process = self.daemon.container(id_).process
        assert process is not None
        code = process.wait()
        self.answer({"StatusCode": code if code >= 0 else 128 - code})

    def stop(self, id_: str, query: Any, body: Any) -> None:
        self.daemon.container(id_).stop()
        self.daemon.done.append("stop")
        self.answer(b"", status=204)

    def remove(self, id_: str, query: Any, body: Any) -> None:
        self.daemon.container(id_).remove()
        del self.daemon.containers[id_]
        self.daemon.done.append("remove")
        self.answer(b"", status=204)

    def archive(self, id_: str, query: Any, body: Any) -> None:
        file = Path(self.daemon.container(id_).inside(query["path"]))
        if not file.is_file():
            raise DockerError(404, f"Could not find the file {query['path']} in container {id_}")
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as tar:
            tar.add(file, arcname=file.name)
        facts = {"name": file.name, "size": file.stat().st_size, "mode": 420, "mtime": "", "linkTarget": ""}
        self.answer(
            content.getvalue(),
            headers={
                "Content-Type": "application/x-tar",
                "X-Docker-Container-Path-Stat": base64.b64encode(json.dumps(facts).encode()).decode(),
            },
        )


_ONE = "/containers/([0-9a-f]+)"
ROUTES: tuple[tuple[str, str, Callable[..., None]], ...] = (
    ("GET", "/_ping", DockerHandler.ping),
    ("HEAD", "/_ping", DockerHandler.ping),
    ("GET", "/version", DockerHandler.version),
    ("POST", "/auth", DockerHandler.login),
    ("GET", "/images/json", DockerHandler.list_images),
    ("POST", "/images/create", DockerHandler.pull),
    ("POST", "/containers/create", DockerHandler.create),
    ("GET", f"{_ONE}/json", DockerHandler.inspect),
    ("POST", f"{_ONE}/start", DockerHandler.start),
    ("POST", f"{_ONE}/attach", DockerHandler.attach),
    ("POST", f"{_ONE}/wait", DockerHandler.wait),
    ("POST", f"{_ONE}/stop", DockerHandler.stop),
    ("DELETE", _ONE, DockerHandler.remove),
    ("GET", f"{_ONE}/archive", DockerHandler.archive),
)
