"""A git repository behind http with a login: git's own server program, in a thread of the test."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextmanager
def served(folder: Path, login: str) -> Iterator[tuple[str, list[str]]]:
    """The repositories below `folder` for `user:password`; the base address, and the Authorization headers so far."""
    backend = Path(subprocess.check_output(["git", "--exec-path"], text=True).strip()) / "git-http-backend"
    wanted, seen = "Basic " + base64.b64encode(login.encode()).decode(), list[str]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            given = self.headers.get("Authorization", "")
            seen.append(given)
            if given != wanted:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            env = {
                **os.environ,
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            }
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = subprocess.run([backend], env=env, input=body, capture_output=True, check=True).stdout
            head, _, content = answer.partition(b"\r\n\r\n")
            lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(lines.pop("Status", "200").split()[0]))
            for name, value in lines.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
