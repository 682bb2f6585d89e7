"""The upload of task logs to remote storage, as a part of a scheduler that is started and stopped with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiosched.config import Settings
from aiosched.errors import ConfigError
from aiosched.remote.folder import open_folder
from aiosched.remote.uploads import LogUploader
from aiosched.remote.values import XComStore, remote_xcoms

_GRACE: Final = 10.0  # seconds to upload what is left when the scheduler stops


async def start_uploads(settings: Settings) -> Callable[[], Awaitable[None]]:
    """Start uploading logs if `logs.remote` is set; returns the function that stops it.

    Raises ConfigError if the folder of that setting, or of `xcom.remote`, cannot be opened.
    """
    logs = settings.logs
    folder = await asyncio.to_thread(open_folder, logs.remote, logs.remote_options, setting="logs.remote")
    if (xcoms := remote_xcoms(settings.xcom)) is not None:
        await asyncio.to_thread(lambda: XComStore(xcoms).folder)
    uploader = None if folder is None else LogUploader(settings.logs_folder, folder, logs.keep_local)
    if uploader is not None:
        try:
            await asyncio.to_thread(uploader.start)
        except OSError as error:
            raise ConfigError(
                f"Logs in {settings.logs_folder} cannot be uploaded: {error}. logs.remote needs a logs.folder that can "
                "be written to, on a file system with locks (flock)."
            ) from None

    async def stop() -> None:
        if uploader is not None:
            await asyncio.to_thread(uploader.stop, _GRACE)

    return stop
