"""Ignore files: `.airflowignore` and `.aioschedignore` say which names of a folder are left out. Reads one folder's.

They are written as `.gitignore`. An `.airflowignore` may have regular expressions instead, as Airflow 1.10 and 2 read
it unless they are told otherwise. A line of those that cannot be used keeps the whole folder from being read: what it
was to ignore must not start to run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pathspec

from aiosched.authoring.base.file_stamps import read_whole
from aiosched.core.values.patterns import PatternError, has_re2, searcher

MOST_IN_IGNORE_FILE: Final = 2**20  # bytes
_AIRFLOWS: Final = ".airflowignore"
IGNORE_FILES: Final = (_AIRFLOWS, ".aioschedignore")  # in this order: the last one wins

_COMMENT: Final = re.compile(r"\s*#.*")
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
    """An ignore file that cannot be used. `hides`: its folder is not to be read."""

    name: str
    message: str
    hides: bool


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
) -> tuple[IgnoreRules, ...] | WrongIgnoreFile:
    """The rules of a folder that has these names. `prefix` is that folder, relative to the root, ending in `/`.

    `syntax` of `.airflowignore` is glob, regexp, or by file: that which its lines have.
    """
    found: list[IgnoreRules] = []
    for name in IGNORE_FILES:
        if name not in names:
            continue
        try:
            lines = read_whole(folder / name, most=MOST_IN_IGNORE_FILE)[0].decode().splitlines()
        except UnicodeDecodeError:
            return _wrong(prefix + name, "it is not UTF-8")
        except OSError as error:
            return _wrong(prefix + name, str(error.strerror))
        is_regexp = name == _AIRFLOWS and (syntax == "regexp" or (syntax == "by file" and _has_regexps(lines)))
        rules = _regexps(lines) if is_regexp else _globs(lines, prefix)
        if isinstance(rules, str):
            return _wrong(prefix + name, rules, hides=is_regexp)
        found.append(rules)
    return tuple(found)


def _wrong(name: str, why: str, *, hides: bool = False) -> WrongIgnoreFile:
    """What is wrong, and not what the file says: a link may lead to what nobody may see."""
    effect = "so nothing below its folder is read" if hides else "so it ignores nothing"
    return WrongIgnoreFile(name, f"{name} cannot be used, {effect}: {why}", hides)


# ---- regular expressions ----


def _has_regexps(lines: Sequence[str]) -> bool:
    """Whether the lines only make sense as regular expressions: no glob means hidden files, which are never listed."""
    meant = [line for line in (line.strip() for line in lines) if line and not line.startswith("#")]
    return any(map(_IS_REGEXP.match, meant)) and not any(map(_IS_GLOB.match, meant))


def _regexps(lines: Sequence[str]) -> IgnoreRules | str:
    """The rules; or what is wrong. A slash at the beginning is that before any name, since 1.10 saw whole paths."""
    patterns = []
    for number, line in enumerate(lines, 1):
        if text := _COMMENT.sub("", line).strip():
            try:
                patterns.append(searcher(f"(?:^|/){text[1:]}" if text.startswith("/") else text))
            except PatternError as error:
                why = _reason(str(error))
                return f"line {number} is no possible regular expression{why} (core.dag_ignore_file_syntax)"

    def verdict(name: str) -> bool | None:
        path = name.removesuffix("/")
        return True if any(pattern(path) for pattern in patterns) else None

    return IgnoreRules(verdict)


def _reason(error: str) -> str:
    """The part of a message that says nothing about the pattern."""
    known = ("lookaround cannot be matched in linear time", "backreferences cannot be matched in linear time")
    return next((f": {reason}" for reason in known if reason in error), "")


# ---- as .gitignore ----


def _globs(lines: Sequence[str], prefix: str) -> IgnoreRules | str:
    for number, line in enumerate(lines, 1):
        try:
            _compile([line])
        except ValueError:
            return f"line {number} is no pattern"
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
