"""Import errors in the log: one line for a file when its error appears or changes, and one when it is gone."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from aiosched.parsing.claims import Conflict, conflict_message
from aiosched.parsing.result import ParsedFile, one_line

log: logging.Logger = logging.getLogger(__name__)

_LONGEST: Final = 1_000  # characters of an error
_PASSING: Final = re.compile(r"0x[0-9a-fA-F]+|[0-9]+")  # addresses and times: what differs each time a file is read


class _Said(NamedTuple):
    text: str
    digest: str | None  # of the content that had it


class ImportErrors:
    """What was said of the files of one parser. Files are read again and again; an error that stays is said once."""

    def __init__(self) -> None:
        self._said: dict[str, _Said] = {}

    def note_stored(self, result: ParsedFile, conflicts: Sequence[Conflict]) -> None:
        """A file was read and stored: its error, if it has one, or that other files have its DAGs."""
        error, name = result.error, result.name
        said = conflict_message(conflicts, name) if error is None else f"{error.type}: {error.message}"
        self.note(name, result.digest, said, line=None if error is None else error.line)

    def note(self, file: str, digest: str | None, error: str | None, *, line: int | None = None) -> None:
        """A file has this error, or none; say what is new about that."""
        known = self._said.pop(file, None)
        if error is None:
            if known is not None:
                log.info("the import error of %s is gone", file)
            return
        found = self._said[file] = _Said(one_line(error, _LONGEST), digest)
        if known is None or not _is_same(known, found):
            log.warning("%s cannot be used: %s", file if line is None else f"{file}:{line}", found.text)

    def forget(self, files: Iterable[str]) -> None:
        """These files do not exist any more."""
        for file in files:
            self.note(file, None, None)


def _is_same(known: _Said, found: _Said) -> bool:
    if known.digest != found.digest:
        return known.text == found.text
    return _PASSING.sub("#", known.text) == _PASSING.sub("#", found.text)
