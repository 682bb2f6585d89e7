"""`python -m tests.security.probe_times URL`: how long a probe takes to be answered, from a process of its own.

Prints the milliseconds since the last line, as JSON, for each line on its standard input; ends with it.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

EVERY: Final = 0.02  # seconds
_SECONDS: Final = 120.0


class ProbeTimes:
    """Asks `url` in a process of its own, whose loop nothing else keeps busy."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def take(self) -> list[float]:
        """The milliseconds of the answers since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: list[float] = json.loads(self._process.stdout.readline())
        return found


def share(times: list[float], part: float) -> float:
    """The value that so large a part of them does not exceed."""
    return sorted(times)[min(int(len(times) * part), len(times) - 1)] if times else 0.0


def main() -> None:
    where, found = urlsplit(sys.argv[1]), list[float]()

    def ask() -> None:
        client = http.client.HTTPConnection(str(where.hostname), where.port, timeout=_SECONDS)
        while True:
            began = time.perf_counter()
            try:
                client.request("GET", where.path)
                client.getresponse().read()
            except (OSError, http.client.HTTPException):
                client.close()
            found.append((time.perf_counter() - began) * 1000)
            time.sleep(EVERY)

    threading.Thread(target=ask, daemon=True).start()
    for _ in sys.stdin:
        taken, found[:] = found[:], []
        print(json.dumps(taken), flush=True)


if __name__ == "__main__":
    main()
