"""A bundle from a git repository, by the `git` command.

A check is one `ls-remote`. A new commit is fetched alone, without history, into a temporary repository, and its files
are written to the cache; no repository is kept, so none can be broken or out of date. A commit that changes nothing in
the bundle's subfolder is no new version. Hooks, and programs that the repository names, never run.

A login is given to git through the environment of its processes: it is on no command line and in no file, and helpers
of the machine that store passwords are switched off.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from aiosched.bundles.cache import BundleCache
from aiosched.bundles.names import short_version
from aiosched.bundles.types import BundleLogin, Newest
from aiosched.bundles.zip_files import MOST_BYTES, MOST_FILES
from aiosched.errors import BundleError, VersionGone

if TYPE_CHECKING:
    from aiosched.config import BundleSettings

_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LONGEST_TEXT: Final = 500
_MOST_SAID: Final = 2**24  # bytes that a command of git may say: 50,000 paths of usual length
_MOST_KEPT: Final = 2**30  # bytes of one file that git writes: a pack is the largest
_PART: Final = 65_536
_HELPER: Final = (
    '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" '
    '"$AIOSCHED_GIT_USER" "$AIOSCHED_GIT_PASSWORD"; }; f'
)
_NOT_THERE: Final = ("not our ref", "unadvertised object", "couldn't find remote ref", "no such remote ref")


class GitBundle:
    """Implements the Bundle protocol."""

    def __init__(self, settings: BundleSettings, cache: BundleCache) -> None:
        assert settings.url is not None
        self.name: str = settings.name
        self.cache: BundleCache = cache
        self.interval: float = settings.interval
        self.connection: str | None = settings.connection
        self._url, self._ref, self._subfolder = settings.url, settings.ref, settings.subfolder
        self._timeout = settings.timeout

    async def newest(self, known: Newest | None, login: BundleLogin | None) -> Newest:
        """Ask for the commit of the ref, and fetch it if it is new."""
        async with _limited(self._timeout):
            commit = await self._commit(login)
            if known is not None and commit in {known.mark, known.version}:
                return known if known.mark == commit else Newest(commit, commit, known.tree)
            tree = await self._fetch(commit, login, known)
            if known is not None and tree == known.tree:  # the subfolder is the same
                return Newest(known.version, commit, tree)
            return Newest(commit, commit, tree)

    async def probe(self, login: BundleLogin | None) -> str:
        """Ask for the commit of the ref."""
        async with _limited(self._timeout):
            return f"{self._ref} is at commit {short_version(await self._commit(login))}"

    async def fetch(self, version: str, login: BundleLogin | None) -> None:
        """Fetch one commit."""
        async with _limited(self._timeout):
            await self._fetch(version, login, None)

    async def _commit(self, login: BundleLogin | None) -> str:
        ref = self._ref
        if _COMMIT.fullmatch(ref):
            return ref
        names = [ref, f"{ref}^{{}}"] if ref == "HEAD" or ref.startswith("refs/") else [
            f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}"
        ]  # fmt: skip
        listed = await self._git("ls-remote", "--", self._url, *names, login=login)
        found = {name: commit for commit, _, name in (line.partition("\t") for line in listed.splitlines())}
        for name in names:
            if (commit := found.get(name)) is not None and _COMMIT.fullmatch(commit):
                return found.get(f"{name}^{{}}", commit)
        raise BundleError(f"the repository has no branch or tag {ref}")

    async def _fetch(self, commit: str, login: BundleLogin | None, known: Newest | None) -> str:
        """Put a commit into the cache, unless it has the tree of `known`; returns its tree."""
        if not _COMMIT.fullmatch(commit):
            raise VersionGone(self.name, commit, "it is no commit")
        with contextlib.ExitStack() as stack:
            scratch = await asyncio.to_thread(lambda: stack.enter_context(self.cache.scratch()))
            repository = str(scratch / "repository")
            await self._git("init", "--quiet", "--bare", "--template=", "--", repository)
            await self._fetch_into(repository, commit, login)
            tree = (await self._git("rev-parse", "--verify", f"{commit}^{{tree}}", at=repository)).strip()
            if self._subfolder:
                tree = await self._tree_of_subfolder(repository, commit)
            if known is None or known.tree != tree:
                await self._write_tree(repository, tree, scratch / "files")
                await asyncio.to_thread(self.cache.make, commit, lambda folder: _move(scratch / "files", folder))
        return tree

    async def _fetch_into(self, repository: str, commit: str, login: BundleLogin | None) -> None:
        words = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
        try:
            await self._git(*words, "--depth=1", "--", self._url, commit, at=repository, login=login)
        except BundleError as error:
            if not any(text in str(error) for text in _NOT_THERE):
                raise
            # perhaps the server gives only whole branches
            names = "+refs/heads/*:refs/heads/*"
            await self._git(*words, "--", self._url, names, at=repository, login=login)
            try:
                await self._git("cat-file", "-e", f"{commit}^{{commit}}", at=repository)
            except BundleError:
                why = "the repository has no such commit, perhaps because its history was rewritten"
                raise VersionGone(self.name, commit, why) from None

    async def _tree_of_subfolder(self, repository: str, commit: str) -> str:
        try:
            tree = (await self._git("rev-parse", "--verify", f"{commit}:{self._subfolder}", at=repository)).strip()
            await self._git("cat-file", "tree", tree, at=repository)
        except BundleError:
            raise BundleError(f"commit {short_version(commit)} has no folder {self._subfolder}") from None
        return tree

    async def _write_tree(self, repository: str, tree: str, target: Path) -> None:
        """Write the files of a tree into a new folder."""
        await self._check_size(repository, tree)
        extra = {"GIT_INDEX_FILE": f"{target}.index"}
        await self._git("read-tree", tree, at=repository, extra=extra)
        await asyncio.to_thread(target.mkdir)
        place = f"--work-tree={target}"
        await self._git(place, "checkout-index", "--all", "--force", at=repository, extra=extra, folder=target)

    async def _check_size(self, repository: str, tree: str) -> None:
        """Raise BundleError if the files of a tree are more than those of an archive may be. Nothing is written."""
        listed = (await self._git("ls-tree", "-r", "-l", "-z", tree, at=repository)).split("\0")
        sizes = [entry.partition("\t")[0].split()[-1] for entry in listed if entry]
        if len(sizes) > MOST_FILES:
            raise BundleError(f"the commit has {len(sizes):,} files, and the limit is {MOST_FILES:,}")
        if (size := sum(int(one) for one in sizes if one.isdecimal())) > MOST_BYTES:
            raise BundleError(f"the commit has {size:,} bytes, and the limit is {MOST_BYTES:,}")

    async def _git(
        self,
        *words: str,
        at: str | None = None,
        login: BundleLogin | None = None,
        extra: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> str:
        """The output of a git command. Raises BundleError with what it said."""
        options = ["-c", "gc.auto=0", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"]
        if at is not None:
            options.append(f"--git-dir={at}")
        try:
            child = await asyncio.create_subprocess_exec(
                "git", *options, *words,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env={**_environment(self._url, login), **(extra or {})}, cwd=folder, start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            raise BundleError("the command `git` is not installed on this machine: install it") from None
        if hasattr(resource, "prlimit"):
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (_MOST_KEPT, _MOST_KEPT))
        assert child.stdout is not None and child.stderr is not None  # noqa: PT018
        try:
            out, said = await asyncio.gather(_read(child.stdout, words[0]), _read(child.stderr, words[0]))
            await child.wait()
        finally:
            if child.returncode is None:  # cancelled: end it with its helpers
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                await child.wait()
        if child.returncode != 0:
            raise BundleError(_explained(said.decode(errors="replace"), login) or f"git {words[0]} failed")
        return out.decode(errors="surrogateescape")


async def _read(pipe: asyncio.StreamReader, command: str) -> bytes:
    found = bytearray()
    while part := await pipe.read(_PART):
        found += part
        if len(found) > _MOST_SAID:
            raise BundleError(f"git {command} says more than {_MOST_SAID:,} bytes: the repository is no usual one")
    return bytes(found)


@contextlib.asynccontextmanager
async def _limited(seconds: float) -> AsyncIterator[None]:
    """Raise BundleError if the block takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise BundleError(f"it took longer than {seconds:g} s (timeout of the bundle)") from None


def _environment(url: str, login: BundleLogin | None) -> dict[str, str]:
    """The environment of git: it asks nobody for a password, and finds the login for the host of `url`, if any."""
    found = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "AIOSCHED"))}
    found |= {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
        "GIT_ALLOW_PROTOCOL": _allowed(url),
        "GIT_LFS_SKIP_SMUDGE": "1",
    }
    if login is not None:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        found |= {
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "credential.helper",
            "GIT_CONFIG_VALUE_0": "",  # forget those of the machine: they may write passwords to disk
            "GIT_CONFIG_KEY_1": f"credential.{parts.scheme}://{host}.helper",
            "GIT_CONFIG_VALUE_1": _HELPER,
            "AIOSCHED_GIT_USER": login.user or "git",
            "AIOSCHED_GIT_PASSWORD": login.password,
        }
    return found


def _allowed(url: str) -> str:
    """The ways to repositories that git may take: that of the address. A redirect never leaves https."""
    scheme = urlsplit(url).scheme if "://" in url else ""
    return {"": "ssh:file", "http": "http:https"}.get(scheme, scheme.removeprefix("git+"))


def _explained(said: str, login: BundleLogin | None) -> str:
    """What git said went wrong, on one line, without passwords."""
    from aiosched.config import hide_password

    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "ssh:"))] or lines
    text = hide_password("; ".join(dict.fromkeys(telling[:3])))
    if login is not None and login.password:
        text = text.replace(login.password, "***")
    return text[:_LONGEST_TEXT]


def _move(source: Path, target: Path) -> None:
    """Move what is in a folder into another one, which is empty."""
    for path in source.iterdir():
        path.rename(target / path.name)
