"""The values of XComs: plain JSON, and paths in object stores, which come back as paths.

A path is a JSON object with one key, PATH: what `ObjectStoragePath.serialize` says. Nothing else is converted back.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

PATH: Final = "__object_storage_path__"

_PATH_IN_TEXT: Final = f'"{PATH}"'
_PATH_IN_BYTES: Final = _PATH_IN_TEXT.encode()
_HOME: Final = "aiosched.authoring.runtime.object_storage"


def read_xcom(text: str | bytes) -> Any:
    """The value of an XCom, or of a part of one, from its JSON."""
    has_paths = _PATH_IN_TEXT in text if isinstance(text, str) else _PATH_IN_BYTES in text
    return json.loads(text, object_hook=_revived) if has_paths else json.loads(text)


def plain_path(value: Any) -> dict[str, Any] | None:
    """The JSON object of a path in an object store; None for another value."""
    module = sys.modules.get(_HOME)  # without it there are no such paths
    if module is None or not isinstance(value, module.ObjectStoragePath):
        return None
    return {PATH: value.serialize()}


def _revived(found: dict[str, Any]) -> Any:
    if found.keys() != {PATH}:
        return found
    from aiosched.authoring.runtime.object_storage import ObjectStoragePath  # needs an extra

    return ObjectStoragePath.deserialize(found[PATH])
