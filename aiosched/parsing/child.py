"""The work of the killable child: import one DAG file, answer, exit.

This is the only module of this package that runs user code, and only in a forked process under resource limits. It
writes a `ChildAnswer` as JSON to its descriptor.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final
from zoneinfo import ZoneInfoNotFoundError, available_timezones

import msgspec
from pendulum.tz.exceptions import InvalidTimezone

from aiosched.authoring.base.checks import fail
from aiosched.authoring.dag.dag import DAG
from aiosched.authoring.dag.loader import load_file
from aiosched.authoring.dag.reads import noting_reads
from aiosched.authoring.dag.sources import digest_of, finder
from aiosched.authoring.decorators.code_advice import code_advice
from aiosched.authoring.runtime.lookups import answering
from aiosched.core.graph.spec import encode_spec
from aiosched.core.values.json_bounds import find_problem
from aiosched.errors import did_you_mean
from aiosched.parsing.discovery import printable
from aiosched.parsing.limits import Limits, lift_memory_limit, restrict_this_process
from aiosched.parsing.result import MAX_MESSAGE, MAX_WARNINGS, ChildAnswer, FileError, one_line
from aiosched.parsing.tracebacks import file_error
from aiosched.parsing.values import FileLookups, ValuesAddress
from aiosched.prctl import die_first_for_memory
from aiosched.sizes import in_units

log: Final = logging.getLogger(__name__)

_AGAIN: Final = 1.0  # seconds after which a swallowed interruption is repeated


class ImportTimeout(BaseException):
    """Raised in user code when its import takes too long; not an Exception, so that few handlers swallow it."""


def answer_for(
    path: str, member: str | None, root: str, content: bytes, limits: Limits, values: ValuesAddress | None, fd: int
) -> None:
    """Import the file at `path` below `root`, or the archive's `member`, and write the answer to `fd`.

    `content` is that of the file as it was read for people. The file reads variables and connections at `values`. Only
    call it in a child.
    """
    faulthandler.enable(file=2)  # a crash, and a supervisor's SIGABRT after a timeout, print the stack
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    restrict_this_process(limits)
    die_first_for_memory()
    lookups, process = FileLookups(values), os.getpid()
    with answering(lookups):
        answer = _import(path, member, root, content, limits)
    if os.getpid() != process:
        os._exit(0)  # a process that the file has forked, and which came back here: one answer is enough
    if lookups.any:
        answer = msgspec.structs.replace(answer, reads_values=True, unanswered=lookups.unanswered)
    document = msgspec.json.encode(answer)
    if len(document) > limits.result:
        message = (
            f"The DAGs of this file take {len(document)} bytes when serialized, and the limit is "
            f"{in_units(limits.result)}. Split the file, or raise parsing.max_result_bytes."
        )
        document = msgspec.json.encode(ChildAnswer(error=FileError(type="ResultTooLarge", message=message)))
    view = memoryview(document)
    while view:
        view = view[os.write(fd, view) :]


def _import(path: str, member: str | None, root: str, content: bytes, limits: Limits) -> ChildAnswer:
    code = path if member is None else f"{path}{os.sep}{member}"  # the file named in tracebacks
    own = {_relative(path, root): digest_of(content)}
    try:
        try:
            with _interrupted_after(limits.import_timeout, limits.file_timeout):
                with noting_reads() as reads:
                    try:
                        loaded = load_file(
                            Path(path), root=Path(root), member=member, content=content, runs_tasks=False
                        )
                    finally:
                        finder.record_data(reads.stamps, but=Path(path))
                documents = tuple(map(_document, loaded.dags))
                advice = _advice(loaded.dags)
        finally:
            lift_memory_limit()
    except BaseException as error:
        kind, message = _explained(error, limits)
        wrong = file_error(error, path=code, root=root, kind=kind, message=message)
        return ChildAnswer(error=wrong, sources=_sources(root) | own, data=_data(root))
    warnings = tuple(one_line(str(w).removeprefix(root + os.sep)) for w in [*loaded.warnings, *advice][:MAX_WARNINGS])
    return ChildAnswer(dags=documents, warnings=warnings, sources=_sources(root) | own, data=_data(root))


def _document(dag: DAG) -> msgspec.Raw:
    """The DAG as it is stored. Raises DagError for what cannot be: it names the place."""
    spec, document = dag.to_spec(), b""
    wrong: Exception | None = None
    try:
        document = encode_spec(spec)
    except (TypeError, ValueError) as error:
        wrong = error
    if wrong is None and b"\\u0000" not in document:
        return msgspec.Raw(document)
    problem = find_problem(msgspec.to_builtins(spec), f"DAG {dag.dag_id!r}")
    if problem is None and wrong is None:  # the text of a backslash and u0000
        return msgspec.Raw(document)
    raise fail(str(problem or f"DAG {dag.dag_id!r} cannot be stored: {wrong}"), dag._origin)


def _advice(dags: Iterable[DAG]) -> list[str]:
    """What will go wrong in the tasks. Code that cannot be read gets none: its DAGs are as good as without."""
    try:
        return code_advice(dags)
    except Exception as error:
        log.debug("the code of tasks could not be read: %r", error)
        return []


def _explained(error: BaseException, limits: Limits) -> tuple[str | None, str | None]:
    """Name and message for special exceptions (timeout, memory, exit); None for the file's own exceptions."""
    match error:
        case ImportTimeout():
            return "Timeout", (
                f"Importing the file took longer than {limits.import_timeout:g} s. Move slow work from the top level "
                "of the file into its tasks, or raise core.dagbag_import_timeout."
            )
        case MemoryError():
            return None, (
                f"Importing the file needs more than {in_units(limits.memory)} of memory. Load data in tasks, "
                "not at the top level of the file, or raise parsing.max_memory_bytes."
            )
        case SystemExit():
            code = "" if error.code is None else repr(error.code)[:MAX_MESSAGE]
            return None, f"The file called sys.exit({code}) at import. Put it under `if __name__ == '__main__':`."
        case ZoneInfoNotFoundError() | InvalidTimezone():
            name = str(error).strip("'").rpartition(" ")[2]
            return None, f"There is no time zone {name!r}.{did_you_mean(name, available_timezones())}"
        case _:
            return None, None


@contextlib.contextmanager
def _interrupted_after(seconds: float, killed_after: float) -> Iterator[None]:
    """Raise ImportTimeout in the block after `seconds`, unless 0 or the process is killed before that anyway."""
    if not 0 < seconds < killed_after:
        yield
        return

    def interrupt(_: int, __: FrameType | None) -> None:
        raise ImportTimeout

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)


def _sources(root: str) -> dict[str, str]:
    """The content hashes of the files below `root` that were imported, by relative path."""
    return {name: digest for name, digest in finder.loaded(Path(root)).items() if name.isprintable()}


def _data(root: str) -> dict[str, str]:
    """The content hashes of what was read below `root` besides, by relative path."""
    return {name: digest for name, digest in finder.data_below(Path(root)).items() if name.isprintable()}


def _relative(path: str, root: str) -> str:
    return printable(os.path.relpath(path, root).replace(os.sep, "/"))
