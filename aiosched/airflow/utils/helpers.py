"""`chain_linear` of Airflow."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from aiosched.authoring.base.checks import fail
from aiosched.authoring.base.dependencies import cross_downstream


def chain_linear(*elements: Any) -> None:
    """Connect each item with the next; of two neighbouring lists each item with each. An empty list is left out."""
    groups = [list(one) if isinstance(one, list | tuple) else [one] for one in elements]
    filled = [group for group in groups if group]
    if len(filled) < 2:
        raise fail("chain_linear() connects nothing: give it at least two tasks, or lists with tasks in them.")
    for left, right in pairwise(filled):
        cross_downstream(left, right)
