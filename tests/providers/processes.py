"""A server that is a process of its own, and says on stderr that it is ready."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import IO


@contextlib.contextmanager
def started(command: Sequence[str], ready: str, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """The line with `ready` in it; the process ends with the block."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
    )
    assert process.stderr is not None
    said: list[str] = []
    with process, process.stderr:
        try:
            for line in process.stderr:
                said.append(line)
                if ready in line:
                    break
            else:
                raise AssertionError(f"{command[0]} ended with {process.wait()}: {''.join(said)}")
            reader = threading.Thread(target=_drain, args=(process.stderr,))
            reader.start()
            yield line
        finally:
            process.terminate()
            process.wait()
        reader.join()


def _drain(stream: IO[str]) -> None:
    for _ in stream:
        pass
