"""The supervisor: takes one file, returns one outcome. It never imports user code itself.

`supervise` runs in the workers of the process pool. It forks a killable child for each file, so a start takes a few
milliseconds: everything except the user's file is already imported. The scheduler also imports this module, to refer to
its functions, so the authoring package is imported inside them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import multiprocessing
import os
import pkgutil
import time
import zipfile
from typing import TYPE_CHECKING, Final, NamedTuple

from aiosched.authoring.base.file_stamps import read_whole
from aiosched.authoring.dag.sources import digest_of
from aiosched.config.secret_environment import forget_secrets
from aiosched.other_user import OtherUser
from aiosched.parsing.killable import become_supervisor, run_killable
from aiosched.parsing.limits import Limits
from aiosched.parsing.result import FileError, ParsedFile, one_line
from aiosched.parsing.values import ValuesAddress
from aiosched.parsing.verdict import parsed_file

if TYPE_CHECKING:
    from aiosched.authoring.base.settings import AuthoringDefaults

_MOST_UNPACKED: Final = 2**24  # bytes of a module in an archive
_READS: Final = 3  # of a file that is being written

_limits: Limits
_user: OtherUser | None = None


class ParseRequest(NamedTuple):
    """The file to parse: its key, its path (for a member: its archive's), and the folder that it belongs to.

    `values`: where it can read variables and connections; None: only in the environment.
    """

    name: str
    path: str
    root: str
    member: str | None = None
    values: ValuesAddress | None = None

    @property
    def source_name(self) -> str:
        """The name of the file to read; for a member, of its archive."""
        return self.name if self.member is None else self.name.removesuffix(f"/{self.member}")


def prepare(
    limits: Limits, defaults: AuthoringDefaults, user: OtherUser | None = None, secret: frozenset[str] = frozenset()
) -> None:
    """Turn this process into a supervisor: called once in each worker of the pool.

    Files are imported as `user`, without the environment variables `secret`.
    """
    from aiosched.authoring.base.settings import use_defaults
    from aiosched.authoring.plugins.loading import plugin_entry_points

    global _limits, _user
    forget_secrets(secret)
    _import_authoring(with_airflow=defaults.airflow == "compat")
    _limits, _user = limits, user
    use_defaults(defaults)
    plugin_entry_points()  # read once for all children
    parent = multiprocessing.parent_process()  # not getppid(): the parent may have died during the imports
    become_supervisor(parent.pid if parent is not None and parent.pid is not None else os.getppid())
    os.nice(5)  # scheduling and running tasks has priority
    gc.collect()
    gc.freeze()  # children share these memory pages


def _import_authoring(*, with_airflow: bool) -> None:
    """Import the aiosched modules that DAG files may import, once for all children."""
    from aiosched import airflow, authoring

    for package in (authoring, airflow) if with_airflow else (authoring,):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(ImportError):  # an extra that is not installed here
                importlib.import_module(module.name)


def supervise(request: ParseRequest) -> ParsedFile:
    """Parse one file. Every failure becomes the error of the outcome.

    A file that is modified between being read and being imported is read again.
    """
    started = time.monotonic()
    for _ in range(_READS):
        result = _supervise(request, started)
        imported = (result.sources or {}).get(request.source_name)
        if imported is None or imported == result.digest:
            break
    return result


def _supervise(request: ParseRequest, started: float) -> ParsedFile:
    from aiosched.parsing.child import answer_for

    try:
        content, digest = _read(request)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        wrong = FileError(type=type(error).__name__, message=one_line(f"{request.name} cannot be read: {error}"))
        return ParsedFile(name=request.name, digest="", seconds=time.monotonic() - started, error=wrong)
    path = os.path.join(request.path, request.member) if request.member else request.path  # noqa: PTH118
    ending = run_killable(
        lambda fd: answer_for(request.path, request.member, request.root, _limits, request.values, fd),
        timeout=_limits.file_timeout,
        max_answer=_limits.result,
        max_output=_limits.output,
        user=_user,
    )
    return parsed_file(
        ending,
        name=request.name,
        path=path,
        digest=digest,
        source=content.decode("utf-8", "backslashreplace"),
        seconds=time.monotonic() - started,
        limits=_limits,
    )


def _read(request: ParseRequest) -> tuple[bytes, str]:
    """The module's bytes, and the digest of the file that contains them."""
    whole, _ = read_whole(request.path)
    if request.member is None:
        return whole, digest_of(whole)
    with zipfile.ZipFile(io.BytesIO(whole)) as archive, archive.open(request.member) as member:
        content = member.read(_MOST_UNPACKED + 1)  # not what its header claims
    if len(content) > _MOST_UNPACKED:
        raise ValueError(f"a module in an archive may have {_MOST_UNPACKED:,} bytes, and this one has more")
    return content, digest_of(whole)
