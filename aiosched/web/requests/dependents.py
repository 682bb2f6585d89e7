"""Clearing that markers extend to other DAGs: only to those for which the sender is operator.

A request is applied by a scheduler, which knows no people. So what it would clear elsewhere is looked at before, for
everybody who is no operator everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from aiosched.core.access.roles import Role
from aiosched.core.requests.requests import Clear, TaskChange
from aiosched.errors import Refused
from aiosched.web.auth.visibility import Visible
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.server.problems import Problem

NAMED: Final = 1_000  # dependents that an answer names; with more, not all can be checked


async def check_dependents(request_client: RequestClient, visible: Visible, dag_id: str, request: Clear) -> None:
    """Raise Problem 403 if the request would clear tasks of a DAG for which the sender is not operator."""
    if visible.person.role >= Role.OPERATOR or not request.dependents or request.dry_run:
        return
    dependents = (await seen_preview(request_client, visible, dag_id, request)).get("dependents") or ()
    others = {each["dag_id"] for each in dependents} - {dag_id}
    allowed = [await visible.may(other, Role.OPERATOR) for other in sorted(others)]
    if len(dependents) >= NAMED or not all(allowed):
        raise Problem(
            403,
            "role-too-low",
            "Markers extend this to DAGs for which you are not operator: send `dependents: false`, or ask an operator.",
        )


async def seen_preview(
    request_client: RequestClient, visible: Visible, dag_id: str, request: TaskChange
) -> dict[str, Any]:
    """What a request would affect. A refusal because of other DAGs does not name them. Raises NotFound and Refused."""
    try:
        return await request_client.preview(request, dag_id)
    except Refused:
        if visible.is_whole or not isinstance(request, Clear) or not request.dependents:
            raise
        await request_client.preview(msgspec.structs.replace(request, dependents=False), dag_id)
        raise Refused("Markers lead too far, through DAGs that you may not see: send `dependents: false`.") from None


def seen_dependents(answer: Mapping[str, Any], visible: Visible) -> list[Any]:
    """The dependents in an answer that can be seen."""
    found = answer.get("dependents") or []
    return [each for each in found if isinstance(each, Mapping) and visible.sees(each.get("dag_id"))]
