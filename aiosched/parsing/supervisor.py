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
import os
import pkgutil
import time
import zipfile
from typing import TYPE_CHECKING, Final, NamedTuple

from aiosched.airflow.finder import install
from aiosched.authoring.base.file_stamps import read_whole
from aiosched.authoring.dag.sources import digest_of
from aiosched.config.secret_environment import forget_secrets
from aiosched.logs import print_as_json
from aiosched.other_user import OtherUser, rights_of
from aiosched.parsing.killable import become_supervisor, run_killable
from aiosched.parsing.limits import Limits
from aiosched.parsing.result import FileError, ParsedFile, one_line
from aiosched.parsing.values import ValuesAddress
from aiosched.parsing.verdict import parsed_file

if TYPE_CHECKING:
    from aiosched.authoring.base.settings import AuthoringDefaults

_MOST_UNPACKED: Final = 2**24  # bytes of a module in an archive

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


def prepare(
    limits: Limits,
    defaults: AuthoringDefaults,
    user: OtherUser | None = None,
    secret: frozenset[str] = frozenset(),
    prints_json: bool = False,
) -> None:
    """Turn this process into a supervisor: called once in each worker of the pool.

    Files are imported as `user`, without the environment variables `secret`. `prints_json`: as the log is.
    """
    from aiosched.authoring.base.settings import use_defaults
    from aiosched.authoring.plugins.loading import plugin_entry_points

    global _limits, _user
    if prints_json:
        print_as_json()
    forget_secrets(secret)
    _import_authoring(with_airflow=defaults.airflow == "compat")
    _limits, _user = limits, user
    use_defaults(defaults)
    install(defaults.airflow)
    plugin_entry_points()  # read once for all children
    become_supervisor()
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
    """Parse one file. Every failure becomes the error of the outcome."""
    from aiosched.parsing.child import answer_for

    started = time.monotonic()
    try:
        whole, source = _read(request)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        wrong = FileError(type=type(error).__name__, message=one_line(f"{request.name} cannot be read: {error}"))
        return ParsedFile(name=request.name, digest="", seconds=time.monotonic() - started, error=wrong)
    path = os.path.join(request.path, request.member) if request.member else request.path  # noqa: PTH118
    ending = run_killable(
        lambda fd: answer_for(request.path, request.member, request.root, whole, _limits, request.values, fd),
        timeout=_limits.file_timeout,
        max_answer=_limits.result,
        max_output=_limits.output,
        user=_user,
    )
    return parsed_file(
        ending,
        name=request.name,
        path=path,
        digest=digest_of(whole),
        source=source.decode("utf-8", "backslashreplace"),
        seconds=time.monotonic() - started,
        limits=_limits,
    )


def _read(request: ParseRequest) -> tuple[bytes, bytes]:
    """The file, and the module to import: what it contains, or is."""
    with rights_of(_user):  # a link may lead to what its author cannot read
        whole, _ = read_whole(request.path)
    if request.member is None:
        return whole, whole
    with zipfile.ZipFile(io.BytesIO(whole)) as archive, archive.open(request.member) as member:
        content = member.read(_MOST_UNPACKED + 1)  # not what its header claims
    if len(content) > _MOST_UNPACKED:
        raise ValueError(f"a module in an archive may have {_MOST_UNPACKED:,} bytes, and this one has more")
    return whole, content
