"""Resource limits for parsing a file, their enforcement and reporting."""

from __future__ import annotations

import math
import os
import resource
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiosched.config import Settings

_OPEN_FILES: Final = 1024
# Anonymous memory (allocations) if the kernel accounts for it, else address space.
_MEMORY: Final = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes for one file. `import_timeout` interrupts the import, `file_timeout` kills the process."""

    import_timeout: float
    file_timeout: float
    memory: int
    result: int
    output: int

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        parsing = settings.parsing
        return cls(
            import_timeout=settings.core.dagbag_import_timeout,
            file_timeout=parsing.file_timeout,
            memory=parsing.max_memory_bytes,
            result=parsing.max_result_bytes,
            output=parsing.max_output_bytes,
        )


def restrict_this_process(limits: Limits) -> None:
    """Put this process, a child that is about to import user code, under `limits`.

    The memory limit is soft, so that `lift_memory_limit` leaves room to report that it was hit. The CPU limit only
    matters if no supervisor is left to enforce the timeout.
    """
    cpu = math.ceil(limits.file_timeout) * (os.cpu_count() or 1) + 1
    _lower(resource.RLIMIT_CORE, 0, hard=True)
    _lower(resource.RLIMIT_CPU, cpu, hard=True)
    _lower(resource.RLIMIT_NOFILE, _OPEN_FILES, hard=False)
    _lower(_MEMORY, limits.memory, hard=False)


def lift_memory_limit() -> None:
    """Remove the memory limit, after user code has ended."""
    _, hard = resource.getrlimit(_MEMORY)
    resource.setrlimit(_MEMORY, (hard, hard))


def _lower(what: int, value: int, *, hard: bool) -> None:
    soft_now, hard_now = resource.getrlimit(what)
    soft = value if soft_now == resource.RLIM_INFINITY else min(value, soft_now)
    resource.setrlimit(what, (soft, soft if hard else hard_now))
