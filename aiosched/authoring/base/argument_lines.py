"""Points an error at the line of the argument that is wrong: in a call of several lines, or in a decorator."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiosched.authoring.base.location import Location, author_location

if TYPE_CHECKING:
    from aiosched.errors import DagError


def point_at_argument(error: DagError, given: Mapping[str, Location | None]) -> None:
    """Move `error` to the argument that it names, if it names one of `given`.

    Their values are the calls in which they are written (None: the call that is running). An error about another line
    stays as it is.
    """
    running = author_location()
    if running is None or (error.file, error.line) != running:
        return
    if error.argument is not None and error.argument in given:
        given = {error.argument: given[error.argument]}
    text = error.argument or error.message
    spelt = {name: re.escape(name).replace("_", "[_ ]") for name in given}
    found = {name: re.search(rf"\b{spelt[name]}\b", text) for name in given}
    named = sorted((place.start(), name) for name, place in found.items() if place is not None)
    if named:
        name = named[0][1]
        call = given[name] or running
        error.move(call.file, _line_of(name, call))


def _line_of(name: str, call: Location) -> int:
    """The line of the keyword argument `name` in a call that begins at `call`, if it is written there."""
    try:
        tree = ast.parse("".join(linecache.getlines(call.file)))
    except (SyntaxError, ValueError):
        return call.line
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno == call.line)
    return next((word.value.lineno for node in calls for word in node.keywords if word.arg == name), call.line)
