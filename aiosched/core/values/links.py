"""Links of tasks as they are stored: XComs whose keys begin with a prefix. Pure values."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

LINK_PREFIX: Final = "_link_"
_SAFE: Final = ("http://", "https://")  # others, such as javascript:, could run in the reader's browser


class TaskLink(NamedTuple):
    """The text of a link, and its address."""

    name: str
    url: str


def link_of(key: str, value: str) -> TaskLink | None:
    """The link that an XCom holds; None if it is not one, or no address of the web. `value` is JSON text."""
    if not key.startswith(LINK_PREFIX):
        return None
    try:
        found: Any = json.loads(value)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    name, url = found.get("name"), found.get("url")
    if not isinstance(name, str) or not isinstance(url, str) or not url.startswith(_SAFE):
        return None
    return TaskLink(name, url)
