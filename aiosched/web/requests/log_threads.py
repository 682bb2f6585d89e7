"""Threads that read logs: apart from those that hash passwords, so that a slow disk or store delays no login."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

_READERS: Final = ThreadPoolExecutor(8, thread_name_prefix="logs")


async def in_log_thread(work: Callable[[], T]) -> T:
    """The result of `work`, which may block."""
    return await asyncio.get_running_loop().run_in_executor(_READERS, work)
