"""Reads the folders of authors for the parser: listings, and the texts of modules.

With `executor.run_as` a process of its own does it, with the rights of that user only: a link leads nowhere its author
could not go, whatever it is exchanged for, and a reader that is held up is ended. Otherwise a thread does it.
"""

from __future__ import annotations

import asyncio
import codecs
import errno
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Final, TypeVar

from aiosched.config.secret_environment import forget_secrets, secret_variables
from aiosched.other_user import OtherUser, rights_of
from aiosched.parsing.clean_processes import CleanContext
from aiosched.parsing.discovery import Discovery, FileSelection, Listing
from aiosched.parsing.killable import become_supervisor
from aiosched.parsing.module_texts import read_texts

T = TypeVar("T")

PATIENCE: Final = 600.0  # seconds for one answer

codecs.lookup("cp437")  # of names in archives, before the rights: another user may not be able to read Python's files

_user: OtherUser | None = None  # in the process of its own


class AuthorFiles:
    """One reader, of the folders of one parser. `user`: as whom DAG files are imported; None: as this process."""

    def __init__(self, selection: FileSelection, *, user: OtherUser | None = None) -> None:
        self._selection, self._user = selection, user
        self._discoveries = _Discoveries()
        self._context = CleanContext()
        self._executor: ProcessPoolExecutor | None = None

    async def list(self, name: str | None, root: Path, imported: Collection[str]) -> Listing:
        """See Discovery.list; `name` is that of the bundle. Raises OSError."""
        return await self._run(self._discoveries.list, _list, name, root, self._selection, imported)

    async def texts(self, root: Path, wanted: Mapping[str, str]) -> dict[str, str]:
        """See read_texts. Raises OSError."""
        return await self._run(read_texts, _texts, root, wanted)

    @property
    def pids(self) -> tuple[int, ...]:
        """The live process of its own, if any."""
        return self._context.pids

    async def close(self) -> None:
        """End the process, also one that hangs."""
        if self._executor is not None:
            await self._context.end(self._executor)

    async def _run(self, here: Callable[..., T], there: Callable[..., T], *words: Any) -> T:
        if self._user is None:
            return await asyncio.to_thread(here, *words)
        for _ in range(2):
            if (executor := self._executor) is None:
                executor = self._executor = self._context.pool(1, _prepare, self._user, secret_variables())
            try:
                async with asyncio.timeout(PATIENCE):
                    return await asyncio.wrap_future(executor.submit(there, *words))
            except (BrokenProcessPool, TimeoutError) as error:
                why = error
                if executor is self._executor:
                    context, self._context, self._executor = self._context, CleanContext(), None
                    await context.end(executor)
        raise OSError(errno.EIO, f"the process that reads it ended twice, or took more than {PATIENCE:g} s") from why


class _Discoveries:
    """What is known of each bundle's folder."""

    def __init__(self) -> None:
        self._of = dict[str | None, Discovery]()

    def list(self, name: str | None, root: Path, selection: FileSelection, imported: Collection[str]) -> Listing:
        """The listing of the folder where the bundle is now."""
        if (known := self._of.get(name)) is None or known.root != root.absolute():
            known = self._of[name] = Discovery(root, selection)
        # The real clock, because it is compared with file system timestamps.
        return known.list(now_ns=time.time_ns(), imported=imported)


_discoveries: Final = _Discoveries()  # of the process of its own


def _prepare(user: OtherUser, secret: frozenset[str]) -> None:
    global _user
    _user = user
    forget_secrets(secret)
    become_supervisor()


def _list(*words: Any) -> Listing:
    with rights_of(_user):
        return _discoveries.list(*words)


def _texts(root: Path, wanted: Mapping[str, str]) -> dict[str, str]:
    with rights_of(_user):
        return read_texts(root, wanted)
