"""Identities: partitions, run ids, the names of task instances, and names that addresses can have.

Source: docs/architecture.md, "Who writes what" (partitions); the semantics reference, section 34 decision 5 (run ids).
"""

from __future__ import annotations

import re
import secrets
import unicodedata
import zlib
from datetime import UTC, datetime
from typing import Final

from aiosched.core.values.states import RunType
from aiosched.errors import Refused

PARTITIONS: Final = 64

ALLOWED_RUN_ID: Final = re.compile(r"^[A-Za-z0-9_.~:+-]+$")
_KEY: Final = re.compile(r"(?!\.{1,2}$)[\w.-]{1,250}")
_INVISIBLE: Final = frozenset("\u115f\u1160\u3164\uffa0")  # the letters that show nothing: fillers of Hangul
LONGEST_NAME: Final = 250  # characters of a display name, as of an id
_CONTROLS: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})  # control characters, lone surrogates, breaks of lines
_TURNS: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
_VISIBLE: Final = frozenset("LNPS")  # letters, numbers, punctuation, symbols
_MADE: Final = re.compile(r"[a-z_]+?__(?P<date>\d{4}-\d\d-\d\dT[\d:.]+\+00:00)(?:_(?P<suffix>[0-9a-f]{8}))?")
_INSTANCE: Final = re.compile(r"(.+)\[(\d{1,9})\]")
RUN_WORDS: Final = ("latest", "latest-failed", "latest-backfill")  # no ids: they name runs by what these are
_PATH_STEPS: Final = frozenset({".", ".."})  # clients remove them from addresses


def partition_of(name: str) -> int:
    """The partition of a DAG id (or of a DAG file's relative path), 0 to 63."""
    return zlib.crc32(name.encode()) % PARTITIONS


def as_incomplete(partition: int) -> int:
    """What the row of a run has in place of its partition until all its task instances are stored: a negative number.

    No scheduler owns such a partition. The function is its own inverse.
    """
    return -1 - partition


def key_fault(key: str) -> str | None:
    """How to change a text so that it may be the id of a DAG, task or group; None: it may be one as it is.

    Letters and digits of all scripts are allowed, up to 250 characters, which are up to 1,000 bytes.

    Source: docs/decisions/0075-ids-in-all-scripts.md.
    """
    composed = unicodedata.normalize("NFC", key)
    if not _KEY.fullmatch(composed):
        return "use 1 to 250 letters, digits, dashes, dots and underscores (not '.' or '..')"
    if composed != key:
        return "write unicodedata.normalize('NFC', …) of it: as it is, it looks like another id, and is not equal to it"
    if hidden := _INVISIBLE.intersection(key):
        return f"leave out U+{ord(min(hidden)):04X}, which cannot be seen"
    return None


def display_name_fault(name: str) -> str | None:
    """How to change a text so that people may be shown it in place of an id; None: it may be shown as it is.

    Letters of all scripts, and marks of their direction, are allowed; characters that turn or break the line around
    them are not, nor is a name of which nothing can be seen.
    """
    if len(name) > LONGEST_NAME:
        return f"use at most {LONGEST_NAME} characters, not {len(name):,}"
    for character in name:
        kind = unicodedata.category(character)
        if kind in _CONTROLS or unicodedata.bidirectional(character) in _TURNS:
            what = "half of a character" if kind == "Cs" else "a control character"
            return f"leave out U+{ord(character):04X}, which is {what}"
    if not any(unicodedata.category(each)[0] in _VISIBLE and each not in _INVISIBLE for each in name):
        return "use letters, digits or other characters that can be seen"
    return None


def make_run_id(run_type: RunType, *, logical_date: datetime | None, run_after: datetime) -> str:
    """A run id such as `scheduled__2026-01-01T00:00:00+00:00`.

    The instant is the logical date, or `run_after` plus a short random suffix where
    there is no logical date (and `run_after` for every manual run).
    """
    instant = run_after if run_type is RunType.MANUAL or logical_date is None else logical_date
    run_id = f"{run_type}__{instant.astimezone(UTC).isoformat()}"
    return run_id if logical_date is not None else f"{run_id}_{secrets.token_hex(4)}"


def check_new_name(kind: str, name: str, *, endings: tuple[str, ...] = ()) -> None:
    """Raise Refused for a new name that no address could have, or that begins or ends with a space.

    `endings` are those of addresses below that of the thing, such as `/queue`.
    """
    if name in _PATH_STEPS:
        raise Refused(f"The {kind} {name!r} is a step in a path, so no address could name it: choose another.")
    if name != name.strip():
        raise Refused(f"The {kind} {name!r} begins or ends with a space, which cannot be seen: choose another.")
    if ending := next((ending for ending in endings if name.endswith(ending)), None):
        raise Refused(
            f"The {kind} {name!r} ends in {ending!r}, so its address would be that of something else: choose another."
        )


def instance_name(task_id: str, map_index: int) -> str:
    """`load`, or `load[3]` for an instance of a mapped task."""
    return task_id if map_index < 0 else f"{task_id}[{map_index}]"


def read_instance_name(name: str, map_index: int | None = None) -> tuple[str, int | None]:
    """The task id and the map index of `load` or `load[3]`; `map_index` is what was given apart from the name.

    No task id has brackets. None and -1 stand for no index. Raises Refused if the two indexes differ.
    """
    found = _INSTANCE.fullmatch(name)
    if found is None:
        return name, map_index
    index = int(found[2])
    if map_index is not None and map_index >= 0 and map_index != index:
        raise Refused(f"{name} is the instance {index}, but the map index {map_index} was given, too: leave one out.")
    return found[1], index


def short_run_id(run_id: str) -> str:
    """A short form of a run id, which also names the run: its logical date, or its random suffix.

    `2026-01-01T06:00` for `scheduled__2026-01-01T06:00:00+00:00`, `1f3c9a02` for a run without a logical date; other
    ids as they are.
    """
    found = _MADE.fullmatch(run_id)
    if found is None:
        return run_id
    return found["suffix"] or found["date"].removesuffix("+00:00").removesuffix(":00")
