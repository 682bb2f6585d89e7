"""Ignore files: `.airflowignore` and `.aioschedignore` say which names of a folder are left out. Reads one folder's.

They are written as `.gitignore`. An `.airflowignore` may have regular expressions instead, as Airflow 1.10 and 2 read
it unless they are told otherwise. A line that works there and cannot here keeps its folder from being read: what it was
to ignore must not start to run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pathspec

from aiosched.authoring.base.file_stamps import read_whole
from aiosched.core.values.patterns import LONGEST_PATTERN, PatternError, has_re2, searcher

MOST_IN_IGNORE_FILE: Final = 2**20  # bytes
_AIRFLOWS: Final = ".airflowignore"
IGNORE_FILES: Final = (_AIRFLOWS, ".aioschedignore")  # in this order: the last one wins

_IS_REGEXP: Final = re.compile(r"\^|.*(\\\.|\.\+|\$$|.\.\*)|\.\*[\w-]")  # as globs these match nothing that is listed
_IS_GLOB: Final = re.compile(r"[*!]|.*(\*\*|/\*|\w\*\.)")


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The patterns of one ignore file. `verdict` of a name relative to the root, where folders end in `/`.

    True: ignored; False: kept by a `!` pattern; None: no pattern matches it.
    """

    verdict: Callable[[str], bool | None]


@dataclass(frozen=True, slots=True)
class WrongIgnoreFile:
    """What is wrong with an ignore file. `hides`: its folder is not to be read."""

    name: str
    message: str
    hides: bool = False


def is_ignored(name: str, rules: Iterable[IgnoreRules]) -> bool:
    """Whether `name` (relative to the root; folders end in `/`) is ignored.

    The last file with a matching pattern decides, and within it the last matching line.
    """
    for rule in reversed(tuple(rules)):
        verdict = rule.verdict(name)
        if verdict is not None:
            return verdict
    return False


def ignore_rules(
    folder: Path, prefix: str, names: Collection[str], syntax: str
) -> tuple[tuple[IgnoreRules, ...], WrongIgnoreFile | None]:
    """The rules of a folder that has these names, and what is wrong with its ignore files.

    `prefix` is that folder, relative to the root, ending in `/`. `syntax` of `.airflowignore` is glob, regexp, or by
    file: that which its lines have. What is said of a file does not tell what is in it: a link may lead to what nobody
    may see.
    """
    found: list[IgnoreRules] = []
    wrong: WrongIgnoreFile | None = None
    for name in (name for name in IGNORE_FILES if name in names):
        where = prefix + name
        try:
            lines = read_whole(folder / name, most=MOST_IN_IGNORE_FILE)[0].decode().splitlines()
            if name == _AIRFLOWS and (syntax == "regexp" or (syntax == "by file" and _has_regexps(lines))):
                rules, dead = _regexps(lines)
                if dead is not None:
                    wrong = WrongIgnoreFile(where, f"{where}: {dead}")
            else:
                rules = _globs(lines, prefix)
            found.append(rules)
        except _CannotMatch as error:
            message = f"{where} cannot be used, so nothing below its folder is read: {error}"
            return (), WrongIgnoreFile(where, message, hides=True)
        except (UnicodeDecodeError, OSError, ValueError) as error:
            why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", error)
            wrong = WrongIgnoreFile(where, f"{where} cannot be used, so it ignores nothing: {why}")
    return tuple(found), wrong


# ---- regular expressions ----


class _CannotMatch(Exception):
    """A line that works in Airflow, and cannot here."""


def _has_regexps(lines: Sequence[str]) -> bool:
    """Whether the lines only make sense as regular expressions: no glob means hidden files, which are never listed."""
    meant = [line for line in (line.strip() for line in lines) if line and not line.startswith("#")]
    return any(map(_IS_REGEXP.match, meant)) and not any(map(_IS_GLOB.match, meant))


def _regexps(lines: Sequence[str]) -> tuple[IgnoreRules, str | None]:
    """The rules, and which line has no effect, in Airflow either. Raises _CannotMatch.

    A slash at the beginning is that before any name, since 1.10 saw whole paths.
    """
    patterns, dead = [], None
    for number, line in enumerate(lines, 1):
        if text := line.partition("#")[0].strip():
            try:
                patterns.append(searcher(f"(?:^|/){text[1:]}" if text.startswith("/") else text))
            except PatternError as error:
                if _is_regexp_of_python(text):
                    why = f"line {number} is no possible regular expression{_reason(str(error))}"
                    raise _CannotMatch(f"{why} (core.dag_ignore_file_syntax)") from None
                why = "is no regular expression, and ignores nothing (core.dag_ignore_file_syntax)"
                dead = dead or f"line {number} {why}"

    def verdict(name: str) -> bool | None:
        path = name.removesuffix("/")
        return True if any(pattern(path) for pattern in patterns) else None

    return IgnoreRules(verdict), dead


def _is_regexp_of_python(text: str) -> bool:
    if len(text) > LONGEST_PATTERN:
        return True
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _reason(error: str) -> str:
    """The part of a message that says nothing about the pattern."""
    known = ("lookaround cannot be matched in linear time", "backreferences cannot be matched in linear time")
    return next((f": {reason}" for reason in known if reason in error), "")


# ---- as .gitignore ----


def _globs(lines: Sequence[str], prefix: str) -> IgnoreRules:
    """The rules. Raises ValueError that names the wrong line."""
    for number, line in enumerate(lines, 1):
        try:
            _compile([line])
        except ValueError:
            raise ValueError(f"line {number} is no pattern") from None
    spec = _compile(lines)
    return IgnoreRules(lambda name: spec.check_file(name.removeprefix(prefix)).include)


def _is_simple(line: str) -> bool:
    """Whether it has at most two `*` in each part of a path, and `**` at most once."""
    return line.count("**") <= 1 and all(part.count("*") <= 2 for part in line.split("/"))


def _compile(lines: Sequence[str]) -> pathspec.GitIgnoreSpec:
    """The patterns of ignore files, matched in linear time. Raises ValueError.

    Without RE2, whose time no pattern can stretch, only those that backtracking matches fast: see `_is_simple`.
    """
    if not has_re2() and not all(map(_is_simple, lines)):
        raise ValueError("it has more wildcards than can be matched without RE2")
    return pathspec.GitIgnoreSpec.from_lines(lines, backend="re2" if has_re2() else "simple")
