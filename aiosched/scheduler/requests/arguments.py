"""What a request may be given. Looked at before a verb is carried out, so that an error in there is ours. Pure.

Does not live here: whether what is asked for is possible (the verbs say so with Refused), and what
each argument means (commands.py, clearing.py, backfills.py, notes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from aiosched.core.values.states import RunState, TaskState


class _Kind(NamedTuple):
    """What an argument may be, for people and for the check. None stands for "not given"."""

    words: str
    fits: Callable[[Any], bool]
    is_needed: bool = False


def _is_instant(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value) is not None
    except ValueError:
        return False


_TEXT: Final = _Kind("text", lambda value: isinstance(value, str))
_TEXTS: Final = _Kind(
    "a list of texts", lambda value: isinstance(value, list) and all(isinstance(t, str) for t in value)
)
_NUMBER: Final = _Kind("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))
_OBJECT: Final = _Kind("a JSON object", lambda value: isinstance(value, dict))
_INSTANT: Final = _Kind("an instant like 2026-01-31T00:00:00+00:00", _is_instant)
_RUN_STATE: Final = _Kind("success, failed or queued", lambda value: value in list(RunState))
_TASK_STATE: Final = _Kind("success, failed or skipped", lambda value: value in list(TaskState))


def _needed(kind: _Kind) -> _Kind:
    return kind._replace(is_needed=True)


_SELECTION: Final = {
    "run_ids": _TEXTS, "from": _INSTANT, "to": _INSTANT, "task_ids": _TEXTS, "pattern": _TEXT, "map_index": _NUMBER,
}  # fmt: skip
_NUMBERED: Final = {"id": _needed(_NUMBER)}

# By verb; flags are left out, since everything is true or false.
ARGUMENTS: Final[Mapping[str, Mapping[str, _Kind]]] = MappingProxyType(
    {
        "trigger": {"conf": _OBJECT, "logical_date": _INSTANT, "run_id": _TEXT, "run_after": _INSTANT},
        "cancel_run": {"run_id": _needed(_TEXT)},
        "clear": _SELECTION,
        "mark_tasks": _SELECTION | {"state": _needed(_TASK_STATE)},
        "mark_run": {"run_id": _needed(_TEXT), "state": _needed(_RUN_STATE)},
        "set_note": {"run_id": _needed(_TEXT), "note": _TEXT, "task_id": _TEXT, "map_index": _NUMBER},
        "backfill_create": {
            "from": _needed(_INSTANT), "to": _needed(_INSTANT), "max_active_runs": _NUMBER, "rerun": _TEXT,
            "conf": _OBJECT,
        },
        "backfill_pause": _NUMBERED,
        "backfill_resume": _NUMBERED,
        "backfill_cancel": _NUMBERED,
        "emit_asset": {"name": _needed(_TEXT), "extra": _OBJECT},
    }
)  # fmt: skip


def unusable(verb: str, args: Mapping[str, Any]) -> str | None:
    """What is wrong with the arguments of a request, for whoever made it; None when they can be used."""
    for name, kind in ARGUMENTS.get(verb, {}).items():
        value = args.get(name)
        if value is None:
            if kind.is_needed:
                return f"{verb}: unusable arguments: {name!r} is missing; give {kind.words}."
        elif not kind.fits(value):
            return f"{verb}: unusable arguments: {name!r} is {str(value)[:80]!r}; give {kind.words}."
    return None
