"""Arguments made up from a parameter's annotation and name."""

from __future__ import annotations

import datetime
import enum
import inspect
from typing import Any


def _function(*_: Any) -> str:
    return "text"


_BY_NAME: dict[str, Any] = {
    "python_callable": _function,
    "sql": "SELECT 1",
    "checks": {"row_count": {"check_statement": "COUNT(*) > 0"}},
    "column_mapping": {"id": {"null_check": {"equal_to": 0}}},
    "mapping": {"id": "INTEGER"},
    "metrics_thresholds": {"count": 1.5},
    "min_threshold": 0,
    "max_threshold": 1,
    "region_name": "eu-central-1",
    "schema_fields": [{"name": "id", "type": "INTEGER"}],
}
_BY_TYPE: tuple[tuple[str, Any], ...] = (  # the first that the annotation begins with
    ("str", "text"),
    ("int", 3),
    ("float", 1.5),
    ("bool", True),
    ("dict", {"key": "value"}),
    ("mapping", {"key": "value"}),
    ("mutablemapping", {"key": "value"}),
    ("list[dict", [{"key": "value"}]),
    ("sequence[dict", [{"key": "value"}]),
    ("list", ["text"]),
    ("sequence", ["text"]),
    ("collection", ["text"]),
    ("iterable", ["text"]),
    ("set", {"text"}),
    ("tuple", ("text",)),
    ("datetime.timedelta", datetime.timedelta(seconds=3)),
    ("timedelta", datetime.timedelta(seconds=3)),
    ("datetime.datetime", datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)),
    ("datetime", datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)),
    ("date", datetime.date(2026, 1, 2)),
    ("callable", _function),
    ("path", "text"),
    ("any", "text"),
)


def made_up(parameter: inspect.Parameter) -> Any:
    """A value for `parameter`."""
    if parameter.name in _BY_NAME:
        return _BY_NAME[parameter.name]
    annotation = parameter.annotation
    if inspect.isclass(annotation) and issubclass(annotation, enum.Enum):
        return next(iter(annotation))
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    for alternative in text.replace("Optional[", "").replace("typing.", "").split("|"):
        wanted = alternative.strip().lower()
        for beginning, value in _BY_TYPE:
            if wanted.startswith(beginning):
                return value
    return {"key": "value"} if "dict" in text.lower() else "text"
