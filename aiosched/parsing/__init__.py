"""Parses DAG files into serialized DAGs in the database.

    service.py     the coroutines of the parser    owned_files.py which files are here, and whose
    progress.py    the first pass, what is stored  storing.py     results in batches, transactions that wait
    discovery.py   finds DAG files                 parse_queue.py the parsing order
    pool.py        parsing processes               plugin_report.py  what is wrong with plugins
    supervisor.py  one file, one killable child    claims.py      which file owns a DAG
    killable.py    fork, watch, kill, reap         store.py       one transaction for many files
    child.py       the import itself               check.py       the same without a database
    verdict.py     describes how a child ended     watcher.py     detects changes of the folder
    tracebacks.py, code_frame.py                   result.py      messages between processes
    values.py      what files read at import       heartbeat.py   says that a parser alone is there
    bundle_sources.py  the bundles, as folders     bundle_keeper.py  fetches and removes their versions

Supervisors also import this package, so the names below are imported on first use.
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
