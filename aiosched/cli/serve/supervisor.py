"""What a supervisor (systemd, compose) needs of `serve`: signs of life, and an end when there are none any more.

With `NOTIFY_SOCKET` in the environment systemd is notified when the service is ready and, as long as the event loop
responds, twice in each `WATCHDOG_USEC`. Source: sd_notify(3).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Final

logger: logging.Logger = logging.getLogger(__name__)

STUCK_EXIT_CODE: Final = 70  # EX_SOFTWARE of sysexits.h


@contextlib.asynccontextmanager
async def supervised(environ: Mapping[str, str] = os.environ) -> AsyncIterator[None]:
    """The service is ready; during the block its signs of life are sent."""
    _notify(environ, "READY=1")
    watchdog = asyncio.create_task(_send_signs_of_life(environ), name="systemd watchdog")
    try:
        yield
    finally:
        watchdog.cancel()
        _notify(environ, "STOPPING=1")


async def _send_signs_of_life(environ: Mapping[str, str]) -> None:
    interval = environ.get("WATCHDOG_USEC", "")
    if not interval.isdecimal() or not int(interval) or "NOTIFY_SOCKET" not in environ:
        return
    while True:
        _notify(environ, "WATCHDOG=1")
        await asyncio.sleep(int(interval) / 2e6)


def _notify(environ: Mapping[str, str], message: str) -> None:
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.connect("\0" + address[1:] if address.startswith("@") else address)
            sock.sendall(message.encode())
    except OSError as error:
        logger.warning("systemd cannot be notified of %s: %s", message, error)


def end_process(where: str) -> None:
    """End this process from a thread: its event loop does not come back, and others have taken its work over."""
    logger.critical("the event loop does not come back from %s: this process ends, to be started again", where)
    for handler in logging.getLogger().handlers:
        with contextlib.suppress(Exception):
            handler.flush()
    os._exit(STUCK_EXIT_CODE)
