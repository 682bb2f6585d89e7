"""DAG files to serialized DAGs in the database.

    discovery.py   which files there are           parse_queue.py which is parsed next
    pool.py        processes that parse            service.py     the coroutine that does it all
    supervisor.py  one file, one killable child    claims.py      whose a DAG is
    killable.py    fork, watch, kill, reap         store.py       one transaction for many files
    child.py       the import itself               check.py       the same without a database
    verdict.py     how it ended, in words          watcher.py     changes of the folder
    tracebacks.py, code_frame.py                   result.py      what passes between them

Supervisors import this package too, so the names below are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosched.lazy import imported_on_demand

if TYPE_CHECKING:
    from aiosched.parsing.check import check_paths
    from aiosched.parsing.result import FileError, ParsedDag, ParsedFile
    from aiosched.parsing.service import Parser, ParserStats
    from aiosched.parsing.store import register_specs

__all__ = ["FileError", "ParsedDag", "ParsedFile", "Parser", "ParserStats", "check_paths", "register_specs"]

_HOMES = {
    "FileError": "result",
    "ParsedDag": "result",
    "ParsedFile": "result",
    "Parser": "service",
    "ParserStats": "service",
    "check_paths": "check",
    "register_specs": "store",
}

__getattr__, __dir__ = imported_on_demand(__name__, _HOMES)
